-- What became of failed runs when what they lack was repaired, and with placebo repairs.
-- $capability: id or name of one capability; every kept one when it is not given
-- $target: only this target
SELECT target, capability_id, name, trajectory_id, task_id, status, change, reward_before, reward_after,
    placebo_change, placebo_rewards, detail
FROM repaired
WHERE CASE WHEN $capability::VARCHAR IS NULL THEN coalesce(kept, false)
        ELSE $capability IN (capability_id, name) END
    AND ($target::VARCHAR IS NULL OR target = $target)
ORDER BY target, capability_id, status, trajectory_id;
