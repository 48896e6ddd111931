-- What each round's base model passed, what was found and taught in it, and by how much validation rose, with 95 % intervals.
SELECT round, n, round(pass_rate, 3) AS pass_rate, round(pass_rate_low, 3) AS low, round(pass_rate_high, 3) AS high,
    array_to_string(found, '; ') AS found, array_to_string(warm_started, '; ') AS warm_started,
    n_tasks, round(base_rate, 3) AS base_rate, round(agent_rate, 3) AS agent_rate,
    round(delta, 3) AS delta, round(delta_low, 3) AS delta_low, round(delta_high, 3) AS delta_high,
    taken, training_rollouts, rollouts, detail
FROM rounds
ORDER BY round;
