-- Trajectories that lack a capability, with the message indices that show it and why.
-- $capability: id or name of one capability; every kept one when it is not given
-- $target: only this target
SELECT k.target, k.capability_id, k.name, l.trajectory_id, t.task_id, t.trial, t.success, l.evidence,
    l.rationale, l.labeller, l.labelling_pass
FROM labels AS l
JOIN capabilities AS k USING (capability_id)
LEFT JOIN selected_capabilities AS s USING (capability_id)
JOIN trajectories AS t USING (trajectory_id)
WHERE l.label = 'LACKING'
    AND CASE WHEN $capability::VARCHAR IS NULL THEN coalesce(s.kept, false)
        ELSE $capability IN (k.capability_id, k.name) END
    AND ($target::VARCHAR IS NULL OR k.target = $target)
ORDER BY k.target, s.rank, k.capability_id, l.trajectory_id, l.labeller, l.labelling_pass;
