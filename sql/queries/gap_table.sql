-- What the agent lacks: error rates, contrastive gap and coverage with 95 % intervals, and the decision.
-- $target: only this target
SELECT target, capability_id, name,
    round(er_failed, 3) AS er_failed, round(er_failed_low, 3) AS er_failed_low,
    round(er_failed_high, 3) AS er_failed_high, n_failed_relevant,
    round(er_passed, 3) AS er_passed, round(er_passed_low, 3) AS er_passed_low,
    round(er_passed_high, 3) AS er_passed_high, n_passed_relevant, n_passed_aside,
    round(gap, 3) AS gap, round(gap_low, 3) AS gap_low, round(gap_high, 3) AS gap_high,
    round(coverage, 3) AS coverage, round(coverage_low, 3) AS coverage_low,
    round(coverage_high, 3) AS coverage_high, n_failed, n_tasks,
    round(decisive, 3) AS decisive, round(decisive_low, 3) AS decisive_low,
    round(decisive_high, 3) AS decisive_high, n_replayed, round(placebo, 3) AS placebo,
    round(placebo_low, 3) AS placebo_low, round(placebo_high, 3) AS placebo_high, n_placebo, not_measured,
    round(q_value, 4) AS q_value, array_to_string(policies, ', ') AS policies,
    reading, kept, verdict, more_tasks, more_trials, same_as, overridden_by, reason
FROM gap_table
WHERE $target::VARCHAR IS NULL OR target = $target
ORDER BY coalesce(kept, false) DESC, coalesce(verdict = 'promising', false) DESC, coalesce(verdict = 'undecided', false) DESC, target, gap DESC NULLS LAST, capability_id;
