-- One row a failed run and a capability that it lacks, with the candidate's name and what its repair did.
CREATE VIEW repaired AS
SELECT k.name, r.*, s.kept
FROM repairs AS r
LEFT JOIN capabilities AS k USING (capability_id)
LEFT JOIN selected_capabilities AS s USING (capability_id);
