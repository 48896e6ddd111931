-- Pass rate by skill (a tag that the task came with) and policy, with Wilson's 95 % interval.
-- $target: only tasks of this target
WITH tagged AS (
    SELECT task_id, unnest(CASE WHEN len(tags) > 0 THEN tags ELSE ['(none)'] END) AS skill
    FROM tasks
)
SELECT r.target, g.skill, r.policy,
    count(r.success) AS n,
    count(*) FILTER (WHERE r.success) AS passed,
    round(passed / n, 3) AS pass_rate,
    round(wilson_low(passed, n), 3) AS low,
    round(wilson_high(passed, n), 3) AS high,
    count(*) - n AS unjudged,
    count(DISTINCT r.task_id) AS n_tasks
FROM trajectories AS r
JOIN tagged AS g USING (task_id)
WHERE $target::VARCHAR IS NULL OR r.target = $target
GROUP BY ALL
ORDER BY r.target, g.skill, r.policy;
