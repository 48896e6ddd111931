-- One row a candidate capability: the contrast, and what was decided.
CREATE VIEW gap_table AS
SELECT
    c.target, c.capability_id, k.name, k.description,
    c.er_failed, c.er_passed, c.gap, c.gap_low, c.gap_high,
    c.coverage, c.coverage_low, c.coverage_high,
    c.n_failed, c.n_passed, c.n_failed_relevant, c.n_passed_relevant, c.n_tasks,
    c.p_value, c.q_value, c.alpha,
    s.kept, s.rank, s.marginal_coverage, s.reason
FROM contrast AS c
LEFT JOIN capabilities AS k USING (capability_id)
LEFT JOIN selected_capabilities AS s USING (capability_id);
