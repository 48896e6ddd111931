-- Every recorded ancestor of everything that was made, however far back. An input's own inputs count only as
-- far as they were recorded before it was used: what a thing was made from again later made nothing older.
-- `direct` is false where every way there has a step that only weighed in on a decision; else depth and roles
-- are those of the ways without one.
CREATE VIEW ancestors AS
WITH RECURSIVE walk AS (
    SELECT kind, id, version, input_kind, input_id, input_version, role, direct, 1 AS depth, recorded_at
    FROM lineage
    UNION
    SELECT w.kind, w.id, w.version, e.input_kind, e.input_id, e.input_version, e.role,
        w.direct AND e.direct, w.depth + 1, e.recorded_at
    FROM walk AS w
    JOIN lineage AS e
        ON e.kind = w.input_kind AND e.id = w.input_id AND e.version = w.input_version
        AND e.recorded_at <= w.recorded_at
    WHERE w.depth < 20
)
SELECT kind, id, version, input_kind AS ancestor_kind, input_id AS ancestor_id,
    input_version AS ancestor_version,
    coalesce(min(depth) FILTER (WHERE direct), min(depth)) AS depth,
    bool_or(direct) AS direct,
    list_sort(list_distinct(coalesce(list(role) FILTER (WHERE direct), list(role)))) AS roles
FROM walk
GROUP BY ALL;

-- The same pairs seen from the other side: everything that was made from a thing, however far on.
CREATE VIEW descendants AS
SELECT ancestor_kind AS kind, ancestor_id AS id, ancestor_version AS version,
    kind AS descendant_kind, id AS descendant_id, version AS descendant_version, depth, direct, roles
FROM ancestors;
