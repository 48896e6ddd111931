-- Pass rate by target, policy and task batch, with Wilson's 95 % interval.
SELECT target, policy, task_batch,
    count(*) FILTER (WHERE success IS NOT NULL) AS n,
    count(*) FILTER (WHERE success) AS passed,
    round(passed / n, 3) AS pass_rate,
    round((passed + 1.9207) / (n + 3.8415)
        - 1.96 * sqrt(passed * (n - passed) / n + 0.9604) / (n + 3.8415), 3) AS low,
    round((passed + 1.9207) / (n + 3.8415)
        + 1.96 * sqrt(passed * (n - passed) / n + 0.9604) / (n + 3.8415), 3) AS high,
    count(*) FILTER (WHERE success IS NULL) AS unjudged
FROM trajectories
GROUP BY ALL
ORDER BY ALL;
