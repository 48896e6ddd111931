-- What the agent lacks: error rates, contrastive gap and coverage with 95 % intervals, and the decision.
SELECT target, name, round(er_failed, 3) AS er_failed, round(er_passed, 3) AS er_passed,
    round(gap, 3) AS gap, round(gap_low, 3) AS gap_low, round(gap_high, 3) AS gap_high,
    round(coverage, 3) AS coverage, n_failed_relevant, n_passed_relevant,
    round(q_value, 4) AS q_value, kept, reason
FROM gap_table
ORDER BY target, kept DESC, gap DESC NULLS LAST;
