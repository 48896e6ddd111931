-- Tasks whose trials disagree: the same task, policy and adapter passed and failed, with the pass rate.
-- $target: only this target
-- $min_trials = 2: leave out tasks with fewer judged trials
SELECT target, task_id, policy, coalesce(adapter, '') AS adapter,
    count(success) AS n,
    count(*) FILTER (WHERE success) AS passed,
    round(passed / n, 3) AS pass_rate,
    round(wilson_low(passed, n), 3) AS low,
    round(wilson_high(passed, n), 3) AS high,
    min(trajectory_id) FILTER (WHERE success) AS a_success,
    min(trajectory_id) FILTER (WHERE NOT success) AS a_failure
FROM trajectories
WHERE $target::VARCHAR IS NULL OR target = $target
GROUP BY ALL
HAVING passed BETWEEN 1 AND n - 1 AND n >= $min_trials::BIGINT
ORDER BY target, abs(passed / n - 0.5), n DESC, task_id, policy, adapter;
