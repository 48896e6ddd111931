-- Which way to put the adapters together validation chose, and by how much the others are behind.
SELECT arm, chosen, round(pass_rate, 3) AS pass_rate, round(pass_rate_low, 3) AS low,
    round(pass_rate_high, 3) AS high, n_tasks, n_trials, round(behind, 3) AS behind,
    round(behind_low, 3) AS behind_low, round(behind_high, 3) AS behind_high, refused
FROM composition_choices
ORDER BY chosen DESC, pass_rate DESC NULLS LAST, arm;
