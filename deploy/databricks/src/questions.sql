-- Databricks notebook source
-- MAGIC %md
-- MAGIC # Questions to the findings table
-- MAGIC The job writes Parquet, partitioned by date. Set the volume of the bundle in the next cell.

-- COMMAND ----------

CREATE OR REPLACE TEMPORARY VIEW findings
USING parquet OPTIONS (path '/Volumes/main/monitoring/rebalance_monitor/tables/findings')

-- COMMAND ----------

-- MAGIC %md ## Which groups rebalanced most in the last day?

-- COMMAND ----------

SELECT `group`, count(*) AS rebalances, sum(stopped_ms_max) / 1000 AS stopped_s_at_most
FROM findings
WHERE kind = 'rebalance' AND NOT history AND date >= current_date() - INTERVAL 1 DAY
GROUP BY `group` ORDER BY rebalances DESC LIMIT 50

-- COMMAND ----------

-- MAGIC %md ## Whose members time out?

-- COMMAND ----------

SELECT `group`, cause.client_id, cause.host, kind, count(*) AS times, max(confidence) AS surest
FROM findings LATERAL VIEW explode(causes) AS cause
WHERE kind IN ('session_timeout', 'poll_interval_exceeded') AND cause.member_id IS NOT NULL
GROUP BY `group`, cause.client_id, cause.host, kind ORDER BY times DESC LIMIT 50

-- COMMAND ----------

-- MAGIC %md ## What was wrong with the monitor itself?

-- COMMAND ----------

SELECT timestamp_millis(at) AS at, phase, causes[0].cause AS cause, causes[0].why AS why
FROM findings
WHERE kind = 'monitor_degraded' ORDER BY at DESC LIMIT 100
