-- What did rebalances cost us last week, by team?
-- The last seven days that the table has. Teams are those of `detection.groups` when the views were printed; groups
-- without one stand under ''. Consumption stood still at most so long; records are known where the topics' ends are.
SELECT team,
       count(DISTINCT group_name) AS groups_hit,
       sum(CASE WHEN kind = 'rebalance' THEN 1 ELSE 0 END) AS rebalances,
       sum(CASE WHEN kind = 'rebalance' THEN coalesce(stopped_ms_max, stopped_ms_min) END) / 1000.0 AS stopped_s_at_most,
       sum(CASE WHEN kind = 'rebalance_cost' THEN arrived END) AS records_arrived,
       max(CASE WHEN kind = 'rebalance_cost' THEN waiting_peak END) AS most_waiting,
       sum(CASE WHEN kind = 'rebalance_cost' THEN caught_up_ms END) / 1000.0 AS catching_up_s,
       sum(CASE WHEN kind = 'rebalance_cost' THEN partition_seconds END) AS partition_seconds
FROM findings
WHERE kind IN ('rebalance', 'rebalance_cost')
  AND NOT history
  AND day >= (SELECT max(day) FROM findings) - INTERVAL 6 DAY
GROUP BY team
ORDER BY coalesce(records_arrived, 0) DESC, coalesce(stopped_s_at_most, 0) DESC, team
