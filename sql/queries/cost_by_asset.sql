-- What each asset cost: all its materializations together, and the latest of each partition.
-- $stage: only assets of this stage
WITH run AS (
    SELECT stage, asset, partition, recorded_at,
        sum(quantity) FILTER (WHERE kind = 'wall') AS wall_s,
        sum(quantity) FILTER (WHERE kind = 'cpu') AS cpu_s,
        sum(quantity) FILTER (WHERE kind = 'rollouts') AS rollouts,
        sum(cost_usd) AS cost_usd,
        row_number() OVER (PARTITION BY stage, asset, partition ORDER BY recorded_at DESC) = 1 AS latest
    FROM ledger
    WHERE $stage::VARCHAR IS NULL OR stage = $stage
    GROUP BY stage, asset, partition, recorded_at
)
SELECT stage, asset, count(*) AS materializations,
    count(DISTINCT partition) AS partitions,
    round(sum(wall_s), 1) AS wall_s, round(sum(cpu_s), 1) AS cpu_s,
    round(sum(wall_s) FILTER (WHERE latest), 1) AS latest_wall_s,
    round(sum(cpu_s) FILTER (WHERE latest), 1) AS latest_cpu_s,
    sum(rollouts)::BIGINT AS rollouts, round(sum(cost_usd), 4) AS cost_usd
FROM run
GROUP BY stage, asset
ORDER BY stage, cpu_s DESC NULLS LAST, asset;
