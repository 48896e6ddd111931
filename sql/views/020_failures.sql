-- One row a failed trajectory, with the fault that triage put it down to.
CREATE VIEW failures AS
SELECT t.*, g.rule, g.evidence, g.detail
FROM triage AS g
JOIN trajectories AS t USING (trajectory_id)
WHERE g.outcome = 'failed';
