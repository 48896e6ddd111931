-- The messages behind labels: what was said where a trajectory lacks (or shows) a capability.
-- $trajectory: only this trajectory
-- $capability: id or name of one capability; every kept one when it is not given
-- $label = LACKING: LACKING or PRESENT
WITH cited AS (
    SELECT l.capability_id, k.name, l.trajectory_id, l.labeller, l.labelling_pass, l.rationale,
        unnest(l.evidence) AS message
    FROM labels AS l
    JOIN capabilities AS k USING (capability_id)
    LEFT JOIN selected_capabilities AS s USING (capability_id)
    WHERE l.label = upper($label::VARCHAR)
        AND ($trajectory::VARCHAR IS NULL OR l.trajectory_id = $trajectory)
        AND CASE WHEN $capability::VARCHAR IS NULL THEN coalesce(s.kept, false)
            ELSE $capability IN (k.capability_id, k.name) END
)
SELECT c.capability_id, c.trajectory_id, c.message, m.role, m.tool_name, m.content,
    list_transform(m.tool_calls, lambda call: call.name || ' ' || call.arguments) AS calls,
    c.rationale, c.labeller, c.labelling_pass
FROM cited AS c
JOIN messages AS m ON m.trajectory_id = c.trajectory_id AND m."index" = c.message
WHERE $trajectory::VARCHAR IS NULL OR m.trajectory_id = $trajectory
ORDER BY c.capability_id, c.trajectory_id, c.labeller, c.labelling_pass, c.message;
