-- Reward, success and dead groups by adapter and iteration, with intervals over that iteration's rollouts.
-- $adapter: only this adapter
SELECT name AS adapter, iteration, n,
    round(reward_mean, 3) AS reward,
    round(reward_mean - 1.96 * reward_std / sqrt(n), 3) AS reward_low,
    round(reward_mean + 1.96 * reward_std / sqrt(n), 3) AS reward_high,
    round(success_rate, 3) AS success_rate,
    round(wilson_low(round(success_rate * n), n), 3) AS success_low,
    round(wilson_high(round(success_rate * n), n), 3) AS success_high,
    round(dead_groups, 3) AS dead_groups,
    redrawn_groups,
    round(entropy, 3) AS entropy,
    round(grad_norm, 3) AS grad_norm,
    sampler_kl, outside_clip,
    validation_n,
    round(validation_rate, 3) AS validation_rate,
    round(wilson_low(round(validation_rate * validation_n), validation_n), 3) AS validation_low,
    round(wilson_high(round(validation_rate * validation_n), validation_n), 3) AS validation_high
FROM training_curves
WHERE $adapter::VARCHAR IS NULL OR name = $adapter
ORDER BY adapter, iteration;
