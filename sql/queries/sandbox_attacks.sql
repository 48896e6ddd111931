-- What the attacks on this machine's sandboxes came to, those that were not held first; with $status = any, all of them.
-- $status = not_pass: fail, skip, not_pass (both) or any
SELECT isolation_level, family, attack, status, expected, outcome, effects, control_ms, seconds, sandbox_version,
    checked_at, detail
FROM sandbox_checks
WHERE CASE lower($status::VARCHAR) WHEN 'any' THEN true WHEN 'not_pass' THEN status <> 'pass'
        ELSE status = lower($status) END
ORDER BY isolation_level, list_position(['fail', 'skip', 'pass'], status), family, attack;
