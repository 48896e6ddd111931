-- One row a candidate capability: the contrast, what repairing it does, and what was decided.
CREATE VIEW gap_table AS
SELECT k.name, k.description, k.reading, c.*, d.share AS decisive, d.share_low AS decisive_low,
    d.share_high AS decisive_high, d.n_replayed, d.placebo, d.placebo_low, d.placebo_high, d.n_placebo,
    coalesce(d.not_measured, '') AS not_measured, s.kept, s.verdict, s.more_tasks, s.more_trials, s.chance,
    s.same_as, s.overridden_by, s.rank, s.marginal_coverage, s.reason
FROM contrast AS c
LEFT JOIN capabilities AS k USING (capability_id)
LEFT JOIN decisive_shares AS d USING (capability_id)
LEFT JOIN selected_capabilities AS s USING (capability_id);
