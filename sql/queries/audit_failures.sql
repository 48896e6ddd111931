-- Audit checks that did not pass, by environment.
SELECT capability_id, environment_id, check_id, level, status, severity, value, n, bound, evidence
FROM environment_checks
WHERE status <> 'pass'
ORDER BY capability_id, severity, check_id;
