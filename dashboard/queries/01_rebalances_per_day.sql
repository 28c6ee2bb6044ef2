-- How often does each group rebalance, per day, and why?
-- The cause is the most likely one of each rebalance; `unsure` counts those that are less than even odds.
SELECT c.day,
       c.group_name,
       c.cause,
       count(*) AS rebalances,
       sum(CASE WHEN c.confidence < 0.5 THEN 1 ELSE 0 END) AS unsure
FROM (SELECT day, group_name, cause, confidence
      FROM finding_causes
      WHERE kind = 'rebalance' AND position = 1 AND NOT history) c
GROUP BY c.day, c.group_name, c.cause
ORDER BY c.day, rebalances DESC, group_name, c.cause
