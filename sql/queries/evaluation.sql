-- What each arm achieved on the test split against the base model, with 95 % intervals (bootstrap over tasks).
-- $skill: `all` or one skill; every group when it is not given
SELECT skill, arm, n_tasks, n_trials, n_faults,
    round(pass_rate, 3) AS pass_rate, round(pass_rate_low, 3) AS low, round(pass_rate_high, 3) AS high,
    round(delta, 3) AS delta, round(delta_low, 3) AS delta_low, round(delta_high, 3) AS delta_high,
    mcnemar_p, round(pass_hat_k, 3) AS pass_hat_k
FROM evaluation_summary
WHERE $skill::VARCHAR IS NULL OR skill = $skill
ORDER BY skill <> 'all', skill, pass_rate DESC NULLS LAST, arm;
