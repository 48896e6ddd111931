-- What each stage cost over every materialization: time, episodes, tokens and money.
SELECT stage,
    count(*) FILTER (WHERE kind = 'wall') AS materializations,
    round(sum(quantity) FILTER (WHERE kind = 'wall'), 1) AS wall_s,
    round(sum(quantity) FILTER (WHERE kind = 'cpu'), 1) AS cpu_s,
    (sum(quantity) FILTER (WHERE kind = 'rollouts'))::BIGINT AS rollouts,
    (sum(quantity) FILTER (WHERE kind = 'prompt_tokens'))::BIGINT AS prompt_tokens,
    (sum(quantity) FILTER (WHERE kind = 'completion_tokens'))::BIGINT AS completion_tokens,
    round(sum(cost_usd), 4) AS cost_usd
FROM ledger
GROUP BY stage
ORDER BY cpu_s DESC NULLS LAST, stage;
