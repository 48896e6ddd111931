-- Passed runs that say little: no change was needed, the policy was broken, or another state hid a mistake.
-- $target: only this target
SELECT trajectory_id, target, policy, task_id, kind, rule, aside, detail
FROM lucky_passes
WHERE $target::VARCHAR IS NULL OR target = $target
ORDER BY target, kind, trajectory_id;
