-- Views over the tables for DuckDB; the queries beside this file stand on them.
-- `rebalance-monitor table sql` fills in the folders of the tables.
-- Partitions are days: `WHERE date >= DATE '2026-01-01'` in the first view reads no older files.

CREATE OR REPLACE VIEW findings AS
SELECT *,
       "group" AS group_name,
       ${team} AS team,
       "at" AS at_ms,
       make_timestamp("at" * 1000) AS at_time,
       CAST(make_timestamp("at" * 1000) AS DATE) AS day,
       json_extract_string(details, '$.worst_client') AS worst_client,
       json_extract_string(details, '$.worst_host') AS worst_host,
       CAST(json_extract_string(details, '$.total') AS BIGINT) AS total,
       CAST(json_extract_string(details, '$.count') AS BIGINT) AS count_in_window,
       CAST(json_extract_string(details, '$.failed') AS BIGINT) AS failed,
       CAST(json_extract_string(details, '$.restarted') AS BIGINT) AS restarted,
       CAST(json_extract_string(details, '$.window_ms') AS BIGINT) AS window_ms,
       CAST(json_extract_string(details, '$.empty_ms') AS BIGINT) AS empty_ms,
       CAST(json_extract_string(details, '$.duration_ms') AS BIGINT) AS duration_ms,
       CAST(json_extract_string(details, '$.arrived') AS BIGINT) AS arrived,
       CAST(json_extract_string(details, '$.waiting_peak') AS BIGINT) AS waiting_peak,
       CAST(json_extract_string(details, '$.caught_up_ms') AS BIGINT) AS caught_up_ms,
       CAST(json_extract_string(details, '$.partition_seconds') AS DOUBLE) AS partition_seconds,
       json_extract_string(details, '$.ended_by') AS ended_by
FROM read_parquet(${files}, hive_partitioning = true, union_by_name = true);

CREATE OR REPLACE VIEW finding_causes AS
SELECT id, kind, group_name, at_ms, at_time, day, history, position,
       entry.cause, entry.confidence, entry.why, entry.member_id, entry.client_id, entry.host, entry.instance_id
FROM (SELECT *, unnest(causes) AS entry, generate_subscripts(causes, 1) AS position FROM findings);

CREATE OR REPLACE VIEW finding_members AS
SELECT id, kind, group_name, at_ms, at_time, day, history,
       entry.member_id, entry.instance_id, entry.client_id, entry.host, entry.host_is_stale, entry.role,
       entry.session_timeout_ms, entry.rebalance_timeout_ms, entry.last_seen, entry.silence_ms, entry.partitions
FROM (SELECT *, unnest(members) AS entry FROM findings);

CREATE OR REPLACE VIEW groups_now AS
SELECT *, "group" AS group_name FROM read_parquet('${groups}/groups.parquet');

CREATE OR REPLACE VIEW open_incidents AS
SELECT group_name, snapshot_at, make_timestamp(snapshot_at * 1000) AS as_of,
       entry.incident, entry.kind, entry.severity, entry.opened_at
FROM (SELECT *, unnest(incidents) AS entry FROM groups_now);
