-- To whom failures are put down, and by which rule.
WITH counted AS (
    SELECT target, outcome, fault, rule, count(*) AS n
    FROM triage
    WHERE outcome <> 'passed'
    GROUP BY ALL
)
SELECT *, round(n / sum(n) OVER (PARTITION BY target), 3) AS share
FROM counted
ORDER BY target, n DESC, rule;
