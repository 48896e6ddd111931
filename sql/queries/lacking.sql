-- Trajectories that lack a kept capability, with the message indices that show it.
SELECT s.target, s.name, l.trajectory_id, t.task_id, t.success, l.evidence, l.rationale
FROM labels AS l
JOIN selected_capabilities AS s ON s.capability_id = l.capability_id AND s.kept
JOIN trajectories AS t USING (trajectory_id)
WHERE l.label = 'LACKING'
ORDER BY s.target, s.rank, l.trajectory_id;
