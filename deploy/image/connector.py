"""Fetches Spark's Kafka connector while the image is built, and links it beside Spark's own jars."""

from rebalance_monitor.cluster.jars.ivy import spark_jars_folder
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka

for jar in resolve_spark_kafka(*installed_spark()):
    (spark_jars_folder() / jar.name).symlink_to(jar)
