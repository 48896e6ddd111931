-- Wilson's 95 % score interval of k successes in n trials, as trace_assets.stats.intervals computes it.
-- With no trials nothing is known and the interval is [0, 1].
CREATE MACRO wilson_low(k, n) AS CASE
    WHEN k IS NULL OR n IS NULL THEN NULL
    WHEN n = 0 OR k = 0 THEN 0.0::DOUBLE
    ELSE least(k / n, greatest(0.0, (k / n + 1.9207294103470618 / n
        - 1.959963984540054 * sqrt(k / n * (1 - k / n) / n + 0.9603647051735309 / (n * n)))
        / (1 + 3.8414588206941236 / n)))
END;
CREATE MACRO wilson_high(k, n) AS CASE
    WHEN k IS NULL OR n IS NULL THEN NULL
    WHEN n = 0 OR k = n THEN 1.0::DOUBLE
    ELSE greatest(k / n, least(1.0, (k / n + 1.9207294103470618 / n
        + 1.959963984540054 * sqrt(k / n * (1 - k / n) / n + 0.9603647051735309 / (n * n)))
        / (1 + 3.8414588206941236 / n)))
END;
