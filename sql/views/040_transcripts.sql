-- One row a trajectory under the names and types of Inspect Scout's transcript schema, then our own columns.
CREATE VIEW transcripts AS
WITH said AS (
    SELECT
        trajectory_id,
        to_json(list(
            {
                'id': trajectory_id || '-' || "index",
                'role': role,
                'content': coalesce(content, ''),
                'tool_calls': CASE WHEN role = 'assistant' THEN list_transform(tool_calls, lambda call: {
                    'id': call.id, 'function': call.name, 'arguments': call.arguments::JSON, 'type': 'function'
                }) END,
                'tool_call_id': tool_call_id,
                'function': tool_name,
                'error': CASE WHEN is_error THEN {'type': 'unknown', 'message': coalesce(content, '')} END
            }
            ORDER BY "index"
        ))::VARCHAR AS messages
    FROM messages
    GROUP BY trajectory_id
)
SELECT
    t.trajectory_id AS transcript_id,
    split_part(t.source, ':', 1) AS source_type,
    coalesce(t.source_id, t.task_batch) AS source_id,
    t.source_uri,
    t.date,
    t.target AS task_set,
    t.task_id,
    t.trial AS task_repeat,
    t.agent,
    coalesce(t.agent_args, '{}') AS agent_args,
    t.policy AS model,
    coalesce(t.model_options, '{}') AS model_options,
    t.reward::VARCHAR AS score,
    t.success,
    t.n_messages AS message_count,
    t.seconds AS total_time,
    CASE
        WHEN t.prompt_tokens IS NULL AND t.completion_tokens IS NULL THEN NULL
        ELSE coalesce(t.prompt_tokens, 0) + coalesce(t.completion_tokens, 0)
    END AS total_tokens,
    t.error,
    t."limit",
    coalesce(said.messages, '[]') AS messages,
    '[]' AS events,
    t.task_batch,
    t.split,
    t.seed,
    t.stop,
    t.fault,
    t.adapter,
    t.user_policy,
    t.cost_usd,
    t.metadata AS metadata_json
FROM trajectories AS t
LEFT JOIN said USING (trajectory_id);
