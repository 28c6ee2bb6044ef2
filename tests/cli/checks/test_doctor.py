"""Doctor: what is wrong is one line with a remedy, and the exit code says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cli.checks.broker_checks import REMOTE
from rebalance_monitor.cli.checks.checks import (
    BLIND_TRAP,
    LOCAL,
    blind_trap,
    packages,
    run_checks,
    storage,
)
from rebalance_monitor.cli.checks.result import Result, numbers
from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.config.load import load
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until


def test_switching_off_the_setting_that_lets_spark_see_is_a_problem() -> None:
    bad = blind_trap(load(flags={f"spark.{BLIND_TRAP}": "false"}))
    assert not bad.ok
    assert BLIND_TRAP in bad.remedy
    assert blind_trap(load()).ok
    assert blind_trap(load(flags={f"spark.{BLIND_TRAP}": "TRUE"})).ok


def test_a_folder_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("x")
    assert not storage(load(flags={"storage.path": str(taken / "data")})).ok
    assert storage(load(flags={"storage.path": str(tmp_path / "a" / "b")})).ok


def test_the_pinned_environment_of_the_tests_is_fine() -> None:
    assert packages(load()).ok


@pytest.mark.parametrize(("text", "parts"), [("4.1", (4, 1)), ("2.3.3+x", (2, 3, 3)), ("25.0.1", (25, 0, 1))])
def test_versions_are_compared_as_numbers(text: str, parts: tuple[int, ...]) -> None:
    assert numbers(text) == parts


def test_a_broker_that_is_away_is_one_problem_with_a_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.jar").touch()
    jars = f"jars=[{tmp_path / 'a.jar'}]"
    assert run(["doctor", "--bootstrap", "127.0.0.1:1", "--set", jars, "-o", "json"]) == 1
    lines = {line["check"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["broker"]["verdict"] == "problem"
    assert "kafka.bootstrap_servers" in lines["broker"]["remedy"]
    assert lines["Spark internal-topic switch"] == {
        "check": "Spark internal-topic switch",
        "verdict": "ok",
        "found": f"{BLIND_TRAP} is true",
        "remedy": None,
    }
    assert "topic" not in lines
    assert run(["doctor", "--bootstrap", "127.0.0.1:1", "--set", jars]) == 1
    text = capsys.readouterr().out
    assert "FIX   broker: Nothing listens at 127.0.0.1:1: the connection is refused." in text
    assert "→ Check `kafka.bootstrap_servers`" in text


def test_the_embedded_engine_is_asked_for_nothing_of_java_and_spark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["doctor", "--bootstrap", "127.0.0.1:1", "--set", "engine=embedded", "-o", "json"]) == 1
    seen = {line["check"] for line in json.loads(capsys.readouterr().out)}
    assert seen == {"configuration", "python", "packages", "login", "storage", "broker"}


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.parametrize(("sees", "verdict", "code"), [("true", "ok", 0), ("false", "problem", 1)])
def test_doctor_reads_through_spark_and_distinguishes_a_blind_source_from_a_seeing_one(
    servers: str, tmp_path: Path, sees: str, verdict: str, code: int
) -> None:
    # In a process of its own: the session of the other tests must not be stopped.
    words = ["--bootstrap", servers, "--set", f"spark.{BLIND_TRAP}={sees}", "-o", "json"]
    script = "import sys; from rebalance_monitor.cli.main import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", script, "doctor", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = {line["check"]: line for line in json.loads(done.stdout)}
    assert lines["through Spark"]["verdict"] == verdict, done.stderr
    assert {line["check"] for line in lines.values() if line["verdict"] != "ok"} <= {
        "through Spark",
        "Spark internal-topic switch",
    }
    assert lines["topic access"]["found"] == "Read and Describe on __consumer_offsets"
    assert done.returncode == code


@pytest.mark.broker
def test_no_check_makes_the_topic_that_is_not_there_yet(tmp_path: Path) -> None:
    with LabBroker(folder=tmp_path) as broker:
        settings = load(flags={"kafka.bootstrap_servers": broker.bootstrap})
        topic = settings.source.topic
        # The lab has made it by asking for a group, as a first consumer would.
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        client.delete_topics([topic])[topic].result()
        with ClusterAdmin(settings.kafka.client_properties()) as admin:
            assert wait_until(lambda: admin.topic(topic) is None, 120)
            found = {name: check(admin, settings) for name, check in REMOTE.items()}
            # A broker makes it within a moment.
            assert not wait_until(lambda: admin.topic(topic) is not None, 3)
    for name in ("topic", "topic access", "source's group", "members"):
        assert "does not exist" in found[name].found
    # No grant would make the brokers return a value of it.
    assert found["broker values"].ok


@pytest.mark.broker
def test_a_topic_that_is_not_the_offsets_topic_or_is_not_compacted_is_named(servers: str) -> None:
    client = AdminClient({"bootstrap.servers": servers})
    client.create_topics([NewTopic("events", 1, 1)])["events"].result()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(3):
        producer.produce("events", key=f"k{number}", value='{"a": 1}')
    assert producer.flush(30) == 0
    with ClusterAdmin({"bootstrap.servers": servers}) as admin:
        flags = {"kafka.bootstrap_servers": servers}
        json_topic = load(flags={**flags, "source.topic": "events"})
        said = REMOTE["reading"](admin, json_topic)
        assert not said.ok
        assert "none of them is a record of a group or an offset" in said.found
        assert REMOTE["reading"](admin, load(flags=flags)).ok
        policy = REMOTE["cleanup policy"](admin, json_topic)
        assert (policy.ok, policy.optional, policy.found) == (
            False,
            False,
            "events has cleanup.policy=delete",
        )
        # Whoever owns that topic would lose records by compaction.
        assert policy.remedy.startswith("Correct `source.topic`")
        assert REMOTE["cleanup policy"](admin, load(flags=flags)).ok
        mistyped = REMOTE["topic"](admin, load(flags={**flags, "source.topic": "__consumer_ofsets"}))
        assert (mistyped.ok, mistyped.optional) == (False, False)
        assert "__consumer_offsets" in mistyped.remedy
        assert REMOTE["listeners"](admin, load(flags=flags)).ok


def test_an_unexpected_failure_of_a_check_is_a_line_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_: object) -> Result:
        raise ZeroDivisionError("by nothing")

    (tmp_path / "a.jar").touch()
    monkeypatch.setitem(LOCAL, "storage", broken)
    monkeypatch.setitem(LOCAL, "java client", lambda _: Result("java client", ok=True, found=""))
    settings = load(flags={"kafka.bootstrap_servers": "127.0.0.1:1", "jars": [str(tmp_path / "a.jar")]})
    found = {result.check: result for result in run_checks(settings)}
    assert found["storage"].found == "the check itself failed: ZeroDivisionError: by nothing"
    assert "broker" in found


def test_doctor_names_all_that_is_wrong_in_one_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--bootstrap", "127.0.0.1:1", "--set", "kafka.security.protocol=SASL_SSL"]
    words += ["--set", "jars=[/nowhere.jar]", "--set", f"spark.{BLIND_TRAP}=false"]
    (file := tmp_path / "file").touch()
    assert run(["doctor", *words, "--set", f"storage.path={file}", "-o", "json"]) == 1
    lines = {line["check"]: line for line in json.loads(capsys.readouterr().out)}
    wrong = {check for check, line in lines.items() if line["verdict"] == "problem"}
    assert wrong == {
        "configuration",
        "jars",
        "login",
        "java client",
        "Spark internal-topic switch",
        "storage",
    }
    assert "`kafka: sasl.mechanism` is missing" in lines["configuration"]["found"]


@pytest.fixture(scope="module")
def servers(lab_broker: LabBroker) -> str:
    """A broker whose offsets topic holds a record."""
    admin = AdminClient({"bootstrap.servers": lab_broker.bootstrap})
    admin.create_topics([NewTopic("doctor-tests", 1, 1)])["doctor-tests"].result()
    consumer = Consumer({"bootstrap.servers": lab_broker.bootstrap, "group.id": "doctor-tests"})
    try:
        consumer.commit(offsets=[TopicPartition("doctor-tests", 0, 1)], asynchronous=False)
    finally:
        consumer.close()
    return lab_broker.bootstrap
