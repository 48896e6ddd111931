-- The trajectories and labels that each adapter came from, with the outcome and label they entered by.
-- $adapter: name or id of one adapter; all in the store when it is not given
-- $through: contrast (labels that decided for the capability) or contract (what its environment imitates)
SELECT a.id AS adapter, a.version AS adapter_id, m.kind AS through, m.capability_id, m.trajectory_id,
    t.task_id, m.outcome, m.label, m.relevant, l.evidence, l.rationale,
    t.trajectory_id IS NOT NULL AS in_store
FROM ancestors AS a
JOIN lineage_nodes AS mine ON mine.kind = a.kind AND mine.id = a.id AND mine.version = a.version
JOIN lineage_members AS m
    ON m.kind = a.ancestor_kind AND m.id = a.ancestor_id AND m.version = a.ancestor_version
LEFT JOIN trajectories AS t ON t.trajectory_id = m.trajectory_id
LEFT JOIN (
    SELECT capability_id, trajectory_id, label, min(evidence) AS evidence, min(rationale) AS rationale
    FROM labels
    WHERE label IN ('PRESENT', 'LACKING')
    GROUP BY ALL
) AS l ON l.capability_id = m.capability_id AND l.trajectory_id = m.trajectory_id AND l.label = m.label
WHERE a.kind = 'adapter' AND a.direct
    AND ($adapter::VARCHAR IS NULL OR $adapter IN (a.id, a.version))
    AND ($through::VARCHAR IS NULL OR m.kind = $through)
ORDER BY adapter, through DESC, m.relevant DESC, m.label, m.outcome, m.trajectory_id;
