-- One row a tool call, with the result it got: the next tool message of the same id in the trajectory.
CREATE VIEW tool_calls AS
WITH calls AS (
    SELECT trajectory_id, "index" AS call_index, role AS caller, unnest(tool_calls) AS call
    FROM messages
    WHERE len(tool_calls) > 0
),
results AS (
    SELECT trajectory_id, tool_call_id, "index" AS result_index, content AS result, is_error
    FROM messages
    WHERE role = 'tool'
)
SELECT
    c.trajectory_id,
    c.call_index,
    c.caller,
    c.call.id AS tool_call_id,
    c.call.name AS tool_name,
    c.call.arguments AS arguments,
    r.result_index,
    r.result,
    coalesce(r.is_error, false) AS is_error
FROM calls AS c
ASOF LEFT JOIN results AS r
    ON r.trajectory_id = c.trajectory_id
    AND r.tool_call_id = c.call.id
    AND c.call_index < r.result_index;
