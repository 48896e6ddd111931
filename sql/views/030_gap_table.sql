-- One row a candidate capability: the contrast, and what was decided.
CREATE VIEW gap_table AS
SELECT k.name, k.description, c.*, s.kept, s.verdict, s.more_tasks, s.chance, s.overridden_by, s.rank, s.marginal_coverage,
    s.reason
FROM contrast AS c
LEFT JOIN capabilities AS k USING (capability_id)
LEFT JOIN selected_capabilities AS s USING (capability_id);
