-- To whom failures are put down and by which rule, with each one's share of the target's failures.
-- $target: only this target
WITH counted AS (
    SELECT target, outcome, coalesce(fault, '') AS fault, rule, count(*) AS failures
    FROM triage
    WHERE outcome <> 'passed' AND ($target::VARCHAR IS NULL OR target = $target)
    GROUP BY ALL
)
SELECT *,
    (sum(failures) OVER (PARTITION BY target))::BIGINT AS n,
    round(failures / n, 3) AS share,
    round(wilson_low(failures, n), 3) AS low,
    round(wilson_high(failures, n), 3) AS high
FROM counted
ORDER BY target, failures DESC, outcome, fault, rule;
