-- What each pilot came to: whether the pass rate on the target rises with the reward, and whether the run was made.
-- $capability: only this capability
SELECT capability_id, outcome, goes_on, rollouts, round(100 * budget_share, 1) AS budget_percent,
    n_checkpoints, round(correlation, 2) AS correlation, round(correlation_low, 2) AS correlation_low,
    round(correlation_high, 2) AS correlation_high, round(reward_gain, 3) AS reward_gain,
    round(reward_gain_low, 3) AS reward_gain_low, round(reward_gain_high, 3) AS reward_gain_high, n_seeds,
    round(target_gain, 3) AS target_gain, round(target_gain_low, 3) AS target_gain_low,
    round(target_gain_high, 3) AS target_gain_high, n_tasks, tasks_are, round(target_p, 4) AS target_p,
    round(seconds, 1) AS seconds, reason
FROM pilots
WHERE $capability::VARCHAR IS NULL OR capability_id = $capability
ORDER BY capability_id;
