-- By which rule the router sends tasks to sums, and what the others came to on validation tasks.
SELECT cost, scale, chosen, several, n_tasks, n_trials, round(pass_rate, 3) AS pass_rate,
    round(pass_rate_low, 3) AS low, round(pass_rate_high, 3) AS high, round(ahead, 3) AS ahead,
    round(ahead_low, 3) AS ahead_low, round(ahead_high, 3) AS ahead_high
FROM set_rules
ORDER BY chosen DESC, pass_rate DESC NULLS LAST, scale DESC, cost DESC;
