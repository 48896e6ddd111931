-- Audit checks that did not pass, worst first, by environment; with $status = any, the whole audit.
-- $capability: only this capability's environment
-- $status = not_pass: fail, skip, not_pass (both) or any
SELECT capability_id, environment_id, check_id, level, status, severity, value, low, high, n, bound, evidence,
    timing, policy_version
FROM environment_checks
WHERE ($capability::VARCHAR IS NULL OR capability_id = $capability)
    AND CASE lower($status::VARCHAR) WHEN 'any' THEN true WHEN 'not_pass' THEN status <> 'pass'
        ELSE status = lower($status) END
ORDER BY capability_id, status, list_position(['error', 'warning', 'info'], severity), check_id;
