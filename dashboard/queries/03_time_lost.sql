-- How long did consumption stand still for rebalancing, per group and day?
-- At least, and at most where commits bound it; `unbounded` counts the rebalances whose upper bound is not known
-- (the lower one stands in for it). Join and sync phases beside it.
SELECT day,
       group_name AS group_name,
       count(*) AS rebalances,
       sum(stopped_ms_min) / 1000.0 AS stopped_s_at_least,
       sum(coalesce(stopped_ms_max, stopped_ms_min)) / 1000.0 AS stopped_s_at_most,
       sum(CASE WHEN stopped_ms_max IS NULL AND stopped_ms_min IS NOT NULL THEN 1 ELSE 0 END) AS unbounded,
       max(join_ms_max) / 1000.0 AS longest_join_s,
       max(sync_ms) / 1000.0 AS longest_sync_s,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY sync_ms) / 1000.0 AS median_sync_s
FROM findings
WHERE kind = 'rebalance' AND NOT history
GROUP BY day, group_name
ORDER BY day, coalesce(stopped_s_at_most, 0) DESC, group_name
