-- From each adapter back to the capability, environment and number of trajectories it came from.
SELECT a.name AS adapter, a.adapter_id, a.base_id, a.environment_id, e.writer, s.target,
    s.name AS capability, c.gap, c.coverage,
    count(DISTINCT l.trajectory_id) FILTER (WHERE l.label = 'LACKING') AS lacking_trajectories,
    count(DISTINCT l.trajectory_id) FILTER (WHERE l.label = 'PRESENT') AS present_trajectories
FROM adapters AS a
LEFT JOIN environments AS e ON e.environment_id = a.environment_id
LEFT JOIN selected_capabilities AS s ON s.capability_id = a.capability_id
LEFT JOIN contrast AS c ON c.capability_id = a.capability_id
LEFT JOIN labels AS l ON l.capability_id = a.capability_id
GROUP BY ALL
ORDER BY adapter;
