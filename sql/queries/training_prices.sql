-- What training each capability's adapter took, beside the median: a line for [selection.prices] of trace.toml.
-- $unit = wall: what counts, 'wall' or 'cpu' seconds, or 'usd'
WITH run AS (
    SELECT partition AS capability_id, recorded_at,
        CASE WHEN $unit = 'usd' THEN sum(cost_usd)
            ELSE sum(quantity) FILTER (WHERE kind = $unit) END AS cost
    FROM ledger
    WHERE asset = 'adapter' AND partition <> ''
    GROUP BY partition, recorded_at
), measured AS (
    SELECT capability_id, count(*) AS trainings, median(cost) AS cost
    FROM run
    WHERE cost > 0
    GROUP BY capability_id
), priced AS (
    -- Whole powers of two: two trainings of one capability differ by less, so a new run seldom moves a price.
    SELECT *, 2.0 ** round(log2(cost / (SELECT median(cost) FROM measured))) AS price
    FROM measured
)
SELECT capability_id, trainings, round(cost, 2) AS cost, price,
    '"' || capability_id || '" = ' || price AS line
FROM priced
ORDER BY price DESC, capability_id;
