-- How quick and how healthy was the monitor: delay from event to finding, and when it was degraded?
SELECT day,
       count(*) AS findings,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY detected_at - at_ms) / 1000.0 AS median_delay_s,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY detected_at - at_ms) / 1000.0 AS p99_delay_s,
       sum(CASE WHEN late THEN 1 ELSE 0 END) AS late,
       sum(CASE WHEN kind = 'monitor_degraded' AND phase = 'opened' THEN 1 ELSE 0 END) AS degraded,
       sum(CASE WHEN kind = 'unreadable_records' AND phase = 'opened' THEN 1 ELSE 0 END) AS unreadable
FROM findings
WHERE NOT history
GROUP BY day
ORDER BY day
