-- Trajectories that lack a capability, with the message indices that show it, why, and whether ER- or ER+ counts them.
-- $capability: id or name of one capability; every kept one when it is not given
-- $target: only this target
SELECT k.target, k.capability_id, k.name, l.trajectory_id, t.task_id, t.trial, t.success, l.evidence,
    l.rationale, l.labeller, l.labelling_pass,
    (g.outcome = 'passed' OR g.outcome = 'failed' AND g.fault = 'agent')
        AND t.task_id NOT IN (SELECT task_id FROM suspect_tasks WHERE aside)
        AND l.trajectory_id NOT IN (SELECT trajectory_id FROM lucky_passes WHERE aside)
        AND coalesce(list_contains(c.policies, g.policy), false) AS counted
FROM labels AS l
JOIN capabilities AS k USING (capability_id)
LEFT JOIN selected_capabilities AS s USING (capability_id)
LEFT JOIN contrast AS c USING (capability_id)
JOIN trajectories AS t USING (trajectory_id)
LEFT JOIN triage AS g USING (trajectory_id)
WHERE l.label = 'LACKING'
    AND CASE WHEN $capability::VARCHAR IS NULL THEN coalesce(s.kept, false)
        ELSE $capability IN (k.capability_id, k.name) END
    AND ($target::VARCHAR IS NULL OR k.target = $target)
ORDER BY k.target, s.rank, k.capability_id, l.trajectory_id, l.labeller, l.labelling_pass;
