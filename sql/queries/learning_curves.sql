-- Reward, success and dead groups by adapter and iteration.
SELECT name, iteration, round(reward_mean, 3) AS reward, round(success_rate, 3) AS success_rate, n,
    round(dead_groups, 3) AS dead_groups, round(validation_rate, 3) AS validation_rate, validation_n
FROM training_curves
ORDER BY name, iteration;
