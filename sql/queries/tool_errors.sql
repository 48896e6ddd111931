-- How often each tool refuses or fails, by target and policy, with Wilson's 95 % interval.
-- $target: only this target
-- $tool: only this tool
SELECT t.target, t.policy, c.tool_name,
    count(*) AS n,
    count(*) FILTER (WHERE c.is_error) AS errors,
    round(errors / n, 3) AS error_rate,
    round(wilson_low(errors, n), 3) AS low,
    round(wilson_high(errors, n), 3) AS high,
    count(*) FILTER (WHERE c.result_index IS NULL) AS unanswered
FROM tool_calls AS c
JOIN trajectories AS t USING (trajectory_id)
WHERE c.caller = 'assistant'
    AND ($target::VARCHAR IS NULL OR t.target = $target)
    AND ($tool::VARCHAR IS NULL OR c.tool_name = $tool)
GROUP BY ALL
ORDER BY t.target, t.policy, error_rate DESC, n DESC, c.tool_name;
