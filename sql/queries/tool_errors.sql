-- How often each tool refuses or fails, by target.
SELECT t.target, c.tool_name, count(*) AS calls,
    count(*) FILTER (WHERE c.is_error) AS errors, round(errors / calls, 3) AS error_rate
FROM tool_calls AS c
JOIN trajectories AS t USING (trajectory_id)
WHERE c.caller = 'assistant'
GROUP BY ALL
ORDER BY t.target, errors DESC, calls DESC;
