"""What Spark is given: the source's options and the session's settings."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from rebalance_monitor.config.load import load
from rebalance_monitor.streaming.rows.packing import PACK_DDL, PACK_SCHEMA
from rebalance_monitor.streaming.source.source import kafka_options
from rebalance_monitor.streaming.spark.session import is_platform, session_settings


def test_every_partition_is_assigned_and_nothing_subscribes() -> None:
    options = kafka_options(load(), 3, None)
    assert json.loads(options["assign"]) == {"__consumer_offsets": [0, 1, 2]}
    assert not {"subscribe", "subscribePattern", "kafka.group.id", "maxOffsetsPerTrigger"} & set(options)
    assert (options["failOnDataLoss"], options["kafka.isolation.level"]) == ("false", "read_uncommitted")


def test_a_partition_with_a_record_to_skip_begins_behind_it_and_the_others_as_configured() -> None:
    for starting, usual in (("earliest", -2), ("latest", -1)):
        settings = load(None, {"source": {"starting": starting}})
        assert kafka_options(settings, 3, None)["startingOffsets"] == starting
        options = kafka_options(settings, 3, None, {1: 1_207})
        assert json.loads(options["startingOffsets"]) == {
            "__consumer_offsets": {"0": usual, "1": 1_208, "2": usual}
        }


def test_client_properties_pass_through_with_their_secrets() -> None:
    kafka = {
        "bootstrap_servers": "a:9093",
        "security.protocol": "sasl_ssl ",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="hush";',
    }
    options = kafka_options(load(None, {"kafka": kafka}), 1, 500)
    assert options["kafka.bootstrap.servers"] == "a:9093"
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert 'password="hush"' in options["kafka.sasl.jaas.config"]
    assert options["maxOffsetsPerTrigger"] == "500"


def test_a_local_session_may_read_internal_topics_and_has_our_jars() -> None:
    found = session_settings({}, [Path("a.jar"), Path("b.jar")], {})
    assert found["spark.sql.streaming.kafka.useDeprecatedOffsetFetching"] == "true"
    assert found["spark.jars"] == "a.jar,b.jar"
    assert found["spark.master"].startswith("local")


def test_a_platform_keeps_its_own_master_jars_and_python() -> None:
    for environment in ({"PYSPARK_GATEWAY_PORT": "1"}, {"DATABRICKS_RUNTIME_VERSION": "17.3"}):
        found = session_settings({}, [], environment)
        assert is_platform(environment)
        assert not {"spark.master", "spark.jars", "spark.python.daemon.module"} & set(found)
        assert found["spark.sql.session.timeZone"] == "UTC"
    assert "spark.sql.streaming.stateStore.providerClass" not in found


def test_the_configuration_overrides_every_default() -> None:
    found = session_settings({"spark.sql.shuffle.partitions": "16", "spark.master": "yarn"}, [], {})
    assert (found["spark.sql.shuffle.partitions"], found["spark.master"]) == ("16", "yarn")


def test_the_jvms_log_has_our_form_and_configured_java_options_are_kept() -> None:
    options = session_settings({"spark.driver.extraJavaOptions": "-Xss2m", "spark.log.level": "WARN"}, [], {})
    layout, scratch, own = shlex.split(options["spark.driver.extraJavaOptions"])
    assert Path(scratch.removeprefix("-Djava.io.tmpdir=")).stat().st_mode & 0o777 == 0o700
    assert layout.startswith("-Dlog4j2.configurationFile=file:///")
    assert Path(layout.partition("file://")[2]).is_file()
    assert own == "-Xss2m"
    assert "spark.log.level" not in options


def test_sparks_schema_has_the_columns_of_a_pack() -> None:
    assert [entry.split()[0] for entry in PACK_DDL.split(", ")] == PACK_SCHEMA.names
