-- Which groups are in trouble, as of the last write of the groups table?
-- Open incidents of single groups, the gravest first, with the group's state; `as_of` says when (UTC). What is wrong
-- with the monitor, a broker or a host is told of no single group and does not stand here.
SELECT o.group_name,
       o.kind,
       o.severity,
       o.opened_at,
       (o.snapshot_at - o.opened_at) / 1000.0 AS open_s,
       n.state,
       n.generation,
       n.members,
       o.as_of
FROM (SELECT group_name, kind, severity, opened_at, snapshot_at, as_of FROM open_incidents) o
JOIN (SELECT group_name, state, generation, members FROM groups_now) n ON n.group_name = o.group_name
ORDER BY CASE o.severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, o.opened_at, group_name
