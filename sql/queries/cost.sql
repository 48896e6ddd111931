-- Wall seconds, CPU seconds, episodes and money by stage, over every materialization.
SELECT stage, asset,
    count(*) FILTER (WHERE kind = 'wall') AS runs,
    round(sum(quantity) FILTER (WHERE kind = 'wall'), 1) AS wall_s,
    round(sum(quantity) FILTER (WHERE kind = 'cpu'), 1) AS cpu_s,
    sum(quantity) FILTER (WHERE kind = 'rollouts') AS rollouts,
    round(sum(cost_usd), 4) AS cost_usd
FROM ledger
GROUP BY ALL
ORDER BY cpu_s DESC NULLS LAST;
