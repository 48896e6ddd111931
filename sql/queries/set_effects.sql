-- What each adapter adds to a sum, on the validation tasks that the router sends there; refused sums too.
-- $adapter: only this adapter
SELECT choice, adapter, without, alone, n_tasks, round(rate, 3) AS rate,
    round(rate_without, 3) AS rate_without, round(delta, 3) AS delta, round(delta_low, 3) AS delta_low,
    round(delta_high, 3) AS delta_high, round(confidence, 5) AS confidence, verdict, served, reason
FROM set_effects
WHERE $adapter::VARCHAR IS NULL OR adapter = $adapter
ORDER BY choice, adapter;
