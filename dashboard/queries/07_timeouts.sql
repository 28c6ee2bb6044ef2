-- Whose members time out, by session or by polling, and how far are the settings from what they need?
SELECT c.kind,
       c.group_name,
       c.client_id,
       c.host,
       count(*) AS times,
       avg(c.confidence) AS mean_confidence,
       max(m.session_timeout_ms) AS session_timeout_ms,
       max(m.rebalance_timeout_ms) AS rebalance_timeout_ms,
       max(m.silence_ms) AS longest_silence_ms
FROM (SELECT id, kind, group_name, client_id, host, confidence
      FROM finding_causes
      WHERE kind IN ('session_timeout', 'poll_interval_exceeded') AND position = 1 AND NOT history
        AND group_name IS NOT NULL) c
LEFT JOIN finding_members m ON m.id = c.id
GROUP BY c.kind, c.group_name, c.client_id, c.host
ORDER BY times DESC, group_name, c.client_id NULLS LAST, c.host NULLS LAST, c.kind
