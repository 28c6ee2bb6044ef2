-- Which groups are the worst? Completed and failed generations, storms, and what is behind most of them.
SELECT f.group_name,
       sum(CASE WHEN f.kind = 'rebalance' THEN 1 ELSE 0 END) AS rebalances,
       sum(CASE WHEN f.kind = 'rebalance_failed' THEN coalesce(f.failed, 1) ELSE 0 END) AS failed_generations,
       sum(CASE WHEN f.kind = 'storm' AND f.phase = 'opened' THEN 1 ELSE 0 END) AS storms,
       sum(CASE WHEN f.kind = 'rebalance' THEN coalesce(f.stopped_ms_max, f.stopped_ms_min, 0) ELSE 0 END) / 1000.0 AS stopped_s,
       max(t.cause) AS main_cause,
       max(t.times) AS main_cause_rebalances
FROM (SELECT group_name, kind, phase, failed, stopped_ms_max, stopped_ms_min
      FROM findings
      WHERE group_name IS NOT NULL AND NOT history) f
LEFT JOIN (SELECT group_name, cause, times
           FROM (SELECT group_name, cause, times,
                        row_number() OVER (PARTITION BY group_name ORDER BY times DESC, cause) AS place
                 FROM (SELECT group_name, cause, count(*) AS times
                       FROM finding_causes
                       WHERE kind = 'rebalance' AND position = 1 AND NOT history
                       GROUP BY group_name, cause) counted) ranked
           WHERE place = 1) t ON t.group_name = f.group_name
GROUP BY f.group_name
ORDER BY rebalances + 2 * failed_generations DESC,
         group_name
