-- One row a tool call, with the result it got.
CREATE VIEW tool_calls AS
WITH calls AS (
    SELECT trajectory_id, "index" AS call_index, role AS caller, unnest(tool_calls) AS call
    FROM messages
    WHERE len(tool_calls) > 0
)
SELECT
    calls.trajectory_id,
    calls.call_index,
    calls.caller,
    calls.call.id AS tool_call_id,
    calls.call.name AS tool_name,
    calls.call.arguments AS arguments,
    min(result."index") AS result_index,
    arg_min(result.content, result."index") AS result,
    coalesce(arg_min(result.is_error, result."index"), false) AS is_error
FROM calls
LEFT JOIN messages AS result
    ON result.trajectory_id = calls.trajectory_id
    AND result.role = 'tool'
    AND result.tool_call_id = calls.call.id
    AND result."index" > calls.call_index
GROUP BY ALL;
