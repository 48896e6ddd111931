-- How many failures each party and each lack decided, with their share of a target's failures.
-- $target: only this target
WITH counted AS (
    SELECT target, party, capability, any_value(capability_name) AS capability_name, count(*) AS failures,
        count(*) FILTER (repaired) AS repaired, count(repaired) AS n_replayed
    FROM why_failed
    WHERE $target::VARCHAR IS NULL OR target = $target
    GROUP BY target, party, capability
),
total AS (SELECT target, sum(failures) AS n FROM counted GROUP BY target)
SELECT c.target, c.party, c.capability, c.capability_name, c.failures, t.n::BIGINT AS n,
    round(c.failures / t.n, 3) AS share,
    round(wilson_low(c.failures, t.n), 3) AS low,
    round(wilson_high(c.failures, t.n), 3) AS high,
    c.repaired, c.n_replayed
FROM counted AS c
JOIN total AS t USING (target)
ORDER BY c.target, c.failures DESC, c.party, c.capability NULLS LAST;
