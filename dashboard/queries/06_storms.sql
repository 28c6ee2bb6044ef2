-- Which storms were there, how long did each last, and who took part in most generations?
-- A storm that has no end here is still open (or the table begins after it).
SELECT group_name AS group_name,
       incident,
       min(opened_at) AS opened_at,
       max(CASE WHEN phase = 'resolved' THEN at_ms END) AS resolved_at,
       (max(CASE WHEN phase = 'resolved' THEN at_ms END) - min(opened_at)) / 1000.0 AS lasted_s,
       max(coalesce(total, count_in_window)) AS generations,
       max(concat_ws(' ', worst_client, worst_host)) AS worst_client
FROM findings
WHERE kind = 'storm' AND NOT history
GROUP BY group_name, incident
ORDER BY opened_at, group_name
