-- Which groups had no consumer, when, for how long, and how did the last one go?
SELECT group_name AS group_name,
       incident,
       min(opened_at) AS empty_since,
       max(CASE WHEN phase = 'resolved' THEN at_ms END) AS until_at,
       max(CASE WHEN phase = 'resolved' THEN empty_ms END) / 1000.0 AS empty_s,
       max(ended_by) AS ended_by,
       max(severity) AS severity
FROM findings
WHERE kind = 'group_empty' AND NOT history
GROUP BY group_name, incident
ORDER BY empty_since, group_name
