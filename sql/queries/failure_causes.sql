-- Why each run failed: whose fault, the decisive message, what was lacking, and whether its repair made it pass.
-- $target: only this target
-- $party: only failures put down to this party
SELECT trajectory_id, target, policy, task_id, party, decisive_message, capability_name, words,
    confidence, source, repaired
FROM why_failed
WHERE ($target::VARCHAR IS NULL OR target = $target) AND ($party::VARCHAR IS NULL OR party = $party)
ORDER BY target, party, capability_name NULLS LAST, trajectory_id;
