-- Which deployments were seen as rolling restarts, how long did they take, and what did they cost?
-- Cost: the group's own rebalances within the restart's window.
SELECT r.at_time,
       r.group_name,
       r.restarted,
       r.window_ms / 1000.0 AS took_s,
       count(b.id) AS rebalances,
       coalesce(sum(coalesce(b.stopped_ms_max, b.stopped_ms_min)), 0) / 1000.0 AS stopped_s
FROM (SELECT id, group_name, at_ms, at_time, restarted, coalesce(window_ms, 0) AS window_ms
      FROM findings
      WHERE kind = 'rolling_restart' AND scope = 'group' AND NOT history) r
LEFT JOIN (SELECT id, group_name, at_ms, stopped_ms_max, stopped_ms_min
           FROM findings
           WHERE kind = 'rebalance' AND NOT history) b
       ON b.group_name = r.group_name AND b.at_ms <= r.at_ms AND b.at_ms >= r.at_ms - r.window_ms
GROUP BY r.id, r.at_time, r.group_name, r.restarted, r.window_ms
ORDER BY r.at_time, group_name
