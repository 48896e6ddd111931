-- All that is tainted by a withdrawn trajectory, label, environment or task batch; give one of the parameters.
-- $trajectory: id of a withdrawn trajectory
-- $capability: with a trajectory: only its label for this capability is withdrawn
-- $environment: id of a withdrawn environment, or its capability
-- $batch: a withdrawn task batch
-- $weak = false: true also follows what only weighed in on a decision (rivals compared, budgets, denominators)
WITH RECURSIVE start AS (
    SELECT kind, id, version,
        CASE WHEN kind = 'contract' THEN 'read it' WHEN relevant THEN 'counts its label ' || label
            ELSE 'counts it as a failure' END AS how
    FROM lineage_members
    WHERE trajectory_id = $trajectory::VARCHAR
        AND ($capability::VARCHAR IS NULL OR capability_id = $capability)
        AND (relevant OR $weak::BOOLEAN)
    UNION
    SELECT 'labels', capability_id, '', 'label ' || label || ' on it'
    FROM labels
    WHERE trajectory_id = $trajectory AND ($capability IS NULL OR capability_id = $capability)
    UNION
    SELECT 'capability', capability_id, '', 'among the first that it was proposed by'
    FROM capabilities
    WHERE list_contains(proposed_by, $trajectory) AND $capability IS NULL AND $weak
    UNION
    SELECT input_kind, input_id, input_version, 'withdrawn'
    FROM lineage
    WHERE ($environment::VARCHAR IS NOT NULL AND input_kind = 'environment'
            AND $environment IN (input_id, input_version))
        OR ($batch::VARCHAR IS NOT NULL AND input_kind = 'trajectories' AND input_id = $batch)
),
walk AS (
    SELECT kind, id, version, how, 0 AS depth, NULL::TIMESTAMPTZ AS recorded_at FROM start
    UNION
    SELECT e.kind, e.id, e.version, e.role || ' ' || w.kind || ' ' || w.id, w.depth + 1, e.recorded_at
    FROM walk AS w
    JOIN lineage AS e
        ON e.input_kind = w.kind AND e.input_id = w.id AND e.input_version = w.version
        AND (w.recorded_at IS NULL OR e.recorded_at >= w.recorded_at)
    WHERE w.depth < 20 AND (e.direct OR $weak)
)
SELECT w.kind, w.id, w.version, min(w.depth) AS depth,
    w.kind IN ('labels', 'capability') OR bool_or(n.version IS NOT NULL) AS in_store,
    list_sort(list_distinct(list(w.how))) AS how
FROM walk AS w
LEFT JOIN lineage_nodes AS n ON n.kind = w.kind AND n.id = w.id AND n.version = w.version
GROUP BY w.kind, w.id, w.version
ORDER BY in_store DESC, depth, w.kind, w.id, w.version;
