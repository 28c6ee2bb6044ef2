-- What is wrong right now: open incidents of the groups table, the gravest first, with the group's state.
SELECT o.group_name,
       o.kind,
       o.severity,
       o.opened_at,
       (o.snapshot_at - o.opened_at) / 1000.0 AS open_s,
       n.state,
       n.generation,
       n.members
FROM (SELECT group_name, kind, severity, opened_at, snapshot_at FROM open_incidents) o
JOIN (SELECT group_name, state, generation, members FROM groups_now) n ON n.group_name = o.group_name
ORDER BY CASE o.severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, o.opened_at, group_name
