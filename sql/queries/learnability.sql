-- Dead groups foretold by the audit against those seen in training, pilot, and the sandbox's share of the time.
-- $capability: only this capability
SELECT l.capability_id, l.n_seeds, round(pass_rate, 3) AS base_pass_rate, round(alpha, 2) AS alpha,
    round(beta, 2) AS beta, round(icc, 3) AS icc, group_size,
    round(dead_predicted, 3) AS dead_foretold, round(dead_low, 3) AS foretold_low,
    round(dead_high, 3) AS foretold_high, round(dead_seen, 3) AS dead_seen,
    round(dead_seen_low, 3) AS seen_low, round(dead_seen_high, 3) AS seen_high, n_groups, n_iterations,
    round(100 * error, 1) AS error_points, signal_group_size, p.outcome AS pilot,
    round(correlation, 2) AS pilot_correlation, round(100 * sandbox_share, 1) AS sandbox_percent,
    round(100 * sandbox_cpu_share, 1) AS sandbox_cpu_percent
FROM learnability AS l
LEFT JOIN pilots AS p USING (capability_id)
WHERE $capability::VARCHAR IS NULL OR l.capability_id = $capability
ORDER BY l.capability_id;
