-- How good each router is: accuracy against the majority floor, calibration, and regret against the oracle.
SELECT s.router, s.split, s.n,
    round(s.accuracy, 3) AS accuracy, round(s.accuracy_low, 3) AS low, round(s.accuracy_high, 3) AS high,
    round(s.majority_share, 3) AS majority_share, round(s.calibration_error, 3) AS calibration_error,
    r.n_tasks AS regret_tasks, round(r.regret, 3) AS regret, round(r.regret_low, 3) AS regret_low,
    round(r.regret_high, 3) AS regret_high
FROM router_scores AS s
LEFT JOIN router_regrets AS r
    ON r.router = s.router AND r.split = s.split AND r.reference = 'oracle'
ORDER BY s.router, s.split;
