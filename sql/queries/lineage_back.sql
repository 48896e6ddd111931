-- From each adapter back to everything it came from: environment, spec, contrast, labels, trajectories, base model.
-- $adapter: name or id of one adapter; all in the store when it is not given
-- $weak = true: false leaves out what only weighed in on a decision
WITH counted AS (
    SELECT kind, id, version, count(*) AS trajectories,
        count(*) FILTER (WHERE label = 'LACKING') AS lacking,
        count(*) FILTER (WHERE label = 'PRESENT') AS present
    FROM lineage_members
    WHERE kind IN ('contrast', 'contract')
    GROUP BY ALL
)
SELECT a.id AS adapter, a.version AS adapter_id, a.depth, a.ancestor_kind AS kind, a.ancestor_id AS id,
    a.ancestor_version AS version, a.roles, a.direct, n.version IS NOT NULL AS in_store,
    c.trajectories, c.lacking, c.present
FROM ancestors AS a
JOIN lineage_nodes AS mine ON mine.kind = a.kind AND mine.id = a.id AND mine.version = a.version
LEFT JOIN counted AS c
    ON c.kind = a.ancestor_kind AND c.id = a.ancestor_id AND c.version = a.ancestor_version
LEFT JOIN lineage_nodes AS n
    ON n.kind = a.ancestor_kind AND n.id = a.ancestor_id AND n.version = a.ancestor_version
WHERE a.kind = 'adapter'
    AND ($adapter::VARCHAR IS NULL OR $adapter IN (a.id, a.version))
    AND (a.direct OR $weak::BOOLEAN)
ORDER BY adapter, a.depth, kind, id, a.ancestor_version;
