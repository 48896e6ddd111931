-- Pass rate by target, policy and task batch, with Wilson's 95 % interval (trials taken as independent).
SELECT target, policy, coalesce(adapter, '') AS adapter, task_batch,
    count(success) AS n,
    count(*) FILTER (WHERE success) AS passed,
    round(passed / n, 3) AS pass_rate,
    round(wilson_low(passed, n), 3) AS low,
    round(wilson_high(passed, n), 3) AS high,
    count(*) - n AS unjudged,
    count(DISTINCT task_id) AS n_tasks
FROM trajectories
GROUP BY ALL
ORDER BY target, policy, adapter, task_batch;
