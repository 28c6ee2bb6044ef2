-- What did rebalances cost each group, per day: for how long did consumption stand still, and how much waited?
-- At least, and at most where commits bound it; `unbounded` counts the rebalances whose upper bound is not known
-- (the lower one stands in for it). Join and sync phases beside it. Records are known where the topics' ends are:
-- those that came while all partitions stood still, the most that waited, and the time until the group had caught
-- up, of the costs that were followed. By team: 11_cost_by_team.
SELECT day,
       group_name AS group_name,
       sum(CASE WHEN kind = 'rebalance' THEN 1 ELSE 0 END) AS rebalances,
       sum(CASE WHEN kind = 'rebalance' THEN stopped_ms_min END) / 1000.0 AS stopped_s_at_least,
       sum(CASE WHEN kind = 'rebalance' THEN coalesce(stopped_ms_max, stopped_ms_min) END) / 1000.0 AS stopped_s_at_most,
       sum(CASE WHEN kind = 'rebalance' AND stopped_ms_max IS NULL AND stopped_ms_min IS NOT NULL THEN 1 ELSE 0 END) AS unbounded,
       sum(CASE WHEN kind = 'rebalance_cost' THEN arrived END) AS records_arrived,
       max(CASE WHEN kind = 'rebalance_cost' THEN waiting_peak END) AS most_waiting,
       sum(CASE WHEN kind = 'rebalance_cost' THEN caught_up_ms END) / 1000.0 AS catching_up_s,
       sum(CASE WHEN kind = 'rebalance_cost' THEN partition_seconds END) AS partition_seconds,
       max(join_ms_max) / 1000.0 AS longest_join_s,
       max(sync_ms) / 1000.0 AS longest_sync_s,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY sync_ms) / 1000.0 AS median_sync_s
FROM findings
WHERE kind IN ('rebalance', 'rebalance_cost') AND NOT history
GROUP BY day, group_name
ORDER BY day, coalesce(records_arrived, 0) DESC, coalesce(stopped_s_at_most, 0) DESC, group_name
