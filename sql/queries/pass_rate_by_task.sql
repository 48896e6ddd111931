-- Pass rate of every task over its trials, hardest first, with Wilson's 95 % interval.
-- $target: only tasks of this target
-- $policy: only trials of this policy
SELECT target, task_id, policy,
    count(success) AS n,
    count(*) FILTER (WHERE success) AS passed,
    round(passed / n, 3) AS pass_rate,
    round(wilson_low(passed, n), 3) AS low,
    round(wilson_high(passed, n), 3) AS high,
    count(*) - n AS unjudged
FROM trajectories
WHERE ($target::VARCHAR IS NULL OR target = $target)
    AND ($policy::VARCHAR IS NULL OR policy = $policy)
GROUP BY target, task_id, policy
ORDER BY target, pass_rate NULLS LAST, n DESC, task_id, policy;
