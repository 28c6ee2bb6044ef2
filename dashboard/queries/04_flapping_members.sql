-- Which members come and go? By client id and instance id: member ids are new each time.
SELECT group_name AS group_name,
       client_id,
       instance_id,
       count(*) AS changes,
       count(DISTINCT host) AS hosts,
       count(DISTINCT member_id) AS member_ids,
       sum(CASE WHEN role = 'joined' THEN 1 ELSE 0 END) AS joined,
       sum(CASE WHEN role = 'left' THEN 1 ELSE 0 END) AS left_group,
       sum(CASE WHEN role = 'replaced' THEN 1 ELSE 0 END) AS replaced,
       min(at_time) AS first_seen,
       max(at_time) AS last_seen
FROM finding_members
WHERE kind = 'rebalance' AND role <> 'kept' AND NOT history
GROUP BY group_name, client_id, instance_id
HAVING count(*) > 1
ORDER BY changes DESC, group_name, client_id NULLS LAST, instance_id NULLS LAST
