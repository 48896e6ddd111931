-- In how many failed runs a write was missed, made without being expected, or made with other arguments.
-- $target: only this target
WITH arguments AS (
    SELECT target, policy, kind, tool, string_agg(DISTINCT name, ', ' ORDER BY name) AS arguments
    FROM (SELECT target, policy, kind, tool, unnest(changed) AS name FROM action_diffs)
    GROUP BY ALL
),
counted AS (
    SELECT target, policy, kind, tool, count(DISTINCT trajectory_id) AS runs, count(*) AS writes
    FROM action_diffs
    WHERE $target::VARCHAR IS NULL OR target = $target
    GROUP BY ALL
),
failures AS (
    SELECT target, policy, count(*) AS n FROM trajectories WHERE success = false GROUP BY ALL
)
SELECT c.target, c.policy, c.kind, c.tool, c.runs, f.n,
    round(c.runs / f.n, 3) AS share,
    round(wilson_low(c.runs, f.n), 3) AS low,
    round(wilson_high(c.runs, f.n), 3) AS high,
    c.writes, coalesce(a.arguments, '') AS arguments
FROM counted AS c
JOIN failures AS f USING (target, policy)
LEFT JOIN arguments AS a USING (target, policy, kind, tool)
ORDER BY c.target, c.policy, c.runs DESC, c.kind, c.tool;
