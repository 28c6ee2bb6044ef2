-- Views over the tables for Spark SQL and Databricks SQL; the queries beside this file stand on them.
-- `rebalance-monitor table sql --engine spark` fills in the folders of the tables.
-- Partitions are days: `WHERE date >= DATE '2026-01-01'` in the first view reads no older files.

CREATE OR REPLACE TEMPORARY VIEW finding_files USING ${format}
OPTIONS (path '${findings}', mergeSchema 'true');

CREATE OR REPLACE TEMPORARY VIEW findings AS
SELECT *,
       `group` AS group_name,
       ${team} AS team,
       at AS at_ms,
       timestamp_millis(at) AS at_time,
       CAST(timestamp_millis(at) AS DATE) AS day,
       get_json_object(details, '$.worst_client') AS worst_client,
       get_json_object(details, '$.worst_host') AS worst_host,
       CAST(get_json_object(details, '$.total') AS BIGINT) AS total,
       CAST(get_json_object(details, '$.count') AS BIGINT) AS count_in_window,
       CAST(get_json_object(details, '$.failed') AS BIGINT) AS failed,
       CAST(get_json_object(details, '$.restarted') AS BIGINT) AS restarted,
       CAST(get_json_object(details, '$.window_ms') AS BIGINT) AS window_ms,
       CAST(get_json_object(details, '$.empty_ms') AS BIGINT) AS empty_ms,
       CAST(get_json_object(details, '$.duration_ms') AS BIGINT) AS duration_ms,
       CAST(get_json_object(details, '$.arrived') AS BIGINT) AS arrived,
       CAST(get_json_object(details, '$.waiting_peak') AS BIGINT) AS waiting_peak,
       CAST(get_json_object(details, '$.caught_up_ms') AS BIGINT) AS caught_up_ms,
       CAST(get_json_object(details, '$.partition_seconds') AS DOUBLE) AS partition_seconds,
       get_json_object(details, '$.ended_by') AS ended_by
FROM finding_files;

CREATE OR REPLACE TEMPORARY VIEW finding_causes AS
SELECT id, kind, group_name, at_ms, at_time, day, history, place + 1 AS position,
       entry.cause, entry.confidence, entry.why, entry.member_id, entry.client_id, entry.host, entry.instance_id
FROM findings LATERAL VIEW posexplode(causes) exploded AS place, entry;

CREATE OR REPLACE TEMPORARY VIEW finding_members AS
SELECT id, kind, group_name, at_ms, at_time, day, history,
       entry.member_id, entry.instance_id, entry.client_id, entry.host, entry.host_is_stale, entry.role,
       entry.session_timeout_ms, entry.rebalance_timeout_ms, entry.last_seen, entry.silence_ms, entry.partitions
FROM findings LATERAL VIEW explode(members) exploded AS entry;

CREATE OR REPLACE TEMPORARY VIEW group_files USING parquet
OPTIONS (path '${groups}');

CREATE OR REPLACE TEMPORARY VIEW groups_now AS
SELECT *, `group` AS group_name FROM group_files;

CREATE OR REPLACE TEMPORARY VIEW open_incidents AS
SELECT group_name, snapshot_at, timestamp_millis(snapshot_at) AS as_of,
       entry.incident, entry.kind, entry.severity, entry.opened_at
FROM groups_now LATERAL VIEW explode(incidents) exploded AS entry;
