-- One row a failure: to whom it is put down, the message that decided it, what was lacking, and how sure that is.
CREATE VIEW why_failed AS
SELECT f.*, k.name AS capability_name, t.policy, t.reward
FROM failure_causes AS f
LEFT JOIN capabilities AS k ON k.capability_id = f.capability
LEFT JOIN trajectories AS t USING (trajectory_id);
