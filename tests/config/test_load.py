"""The layers of the configuration, and the sentences about what is wrong with it."""

import os
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.cli.options import load_settings
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load, nested
from rebalance_monitor.config.model import Settings
from rebalance_monitor.config.texts import from_json, from_yaml


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("REBALANCE_MONITOR_")]:
        monkeypatch.delenv(name)


def written(folder: Path, text: str) -> Path:
    path = folder / "monitor.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(path: Path | None = None, **flags: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, flags)
    return str(caught.value)


def test_without_any_layer_the_defaults_hold() -> None:
    assert load() == Settings()


def test_flags_win_over_environment_over_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(
        tmp_path, "detection: {storm_threshold: 6, grace: 7ms, slow_sync: 8ms}\ncluster_name: from-file\n"
    )
    monkeypatch.setenv("REBALANCE_MONITOR_DETECTION__GRACE", "70ms")
    monkeypatch.setenv("REBALANCE_MONITOR_DETECTION__SLOW_SYNC", "80ms")

    settings = load(path, {"detection.slow_sync": "800ms"})

    chosen = settings.detection
    assert (chosen.storm_threshold, chosen.grace, chosen.slow_sync) == (6, "70ms", "800ms")
    assert chosen.stuck_after == Settings().detection.stuck_after
    assert settings.cluster_name == "from-file"


def test_the_file_named_in_the_environment_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_CONFIG", str(written(tmp_path, "buckets: 4\n")))
    assert load().buckets == 4


def test_an_option_that_is_not_given_changes_nothing_and_an_empty_assignment_does(tmp_path: Path) -> None:
    path = written(tmp_path, "source: {max_offsets_per_trigger: 5}\ndetection: {storm_threshold: 9}\n")
    assert load_settings(path, (), {"buckets": None, "source.topic": None}) == load(path)
    emptied = load_settings(path, ("source.max_offsets_per_trigger=",))
    assert emptied.source.max_offsets_per_trigger is None
    with pytest.raises(ConfigError, match=r"`storage\.path` on the command line: must be a text"):
        load_settings(path, ("storage.path=",))


def test_an_empty_file_and_an_empty_section_mean_the_defaults(tmp_path: Path) -> None:
    assert load(written(tmp_path, "")) == Settings()
    assert load(written(tmp_path, "kafka:\ndetection:\n")) == Settings()


def test_property_names_keep_their_dots() -> None:
    assert nested({"kafka.sasl.mechanism": "PLAIN", "source.topic": "t"}) == {
        "kafka": {"sasl.mechanism": "PLAIN"},
        "source": {"topic": "t"},
    }


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"detecton": {}}, "unknown key `detecton` on the command line: did you mean `detection`?"),
        (
            {"detection.storm_treshold": 3},
            "unknown key `detection.storm_treshold` on the command line: did you mean `detection.storm_thr",
        ),
        (
            {"detection.groups": [{"pattern": "a*", "storm_treshold": 9}]},
            "`detection.groups.0.storm_treshold` on the command line: did you mean `detection.group",
        ),
        (
            {"probe.wings": 2},
            "unknown key `probe.wings` on the command line: the keys here are enabled, interval",
        ),
        (
            {"buckets": 0},
            "`buckets` on the command line: input should be greater than or equal to 1, found 0",
        ),
        ({"trigger": 5}, "`trigger` on the command line: 5 has no unit; write 30s, 5m, 4h or 1h30m"),
        ({"detection.grace": 1.5}, "`detection.grace` on the command line: 1.5 has no unit; write 30s"),
        ({"tables.keep": "30"}, "`tables.keep` on the command line: 30 has no unit; write 30s"),
        (
            {"tables.groups_interval": 0},
            "`tables.groups_interval` on the command line: must be longer than 0",
        ),
        ({"alerts.hold": True}, "`alerts.hold` on the command line: must be a duration, such as 30s"),
        ({"detection": 3}, "`detection` on the command line: must hold `key: value` lines, found 3"),
        ({"kafka.group.id": "g"}, "`group.id` may not be set: the monitor never joins a consumer group"),
        (
            {"kafka.bootstrap_servers": "nowhere"},
            "`kafka.bootstrap_servers` on the command line: has the entry 'nowhere', which has no port",
        ),
        ({"spark.master": "local"}, "`master` is no Spark setting: its name must begin with `spark.`"),
        ({"kafka.acks": [1]}, "`acks` must be a text, a number or a boolean"),
    ],
)
def test_a_problem_names_key_and_place(flags: dict[str, object], sentence: str) -> None:
    assert sentence in problems(None, **flags)


def test_the_sentence_names_the_layer_that_holds_the_wrong_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "buckts: 2\n")
    assert f"unknown key `buckts` in the file {path}: did you mean `buckets`?" in problems(path)
    monkeypatch.setenv("REBALANCE_MONITOR_BUCKETS", "many")
    assert "`buckets` in the environment" in problems()


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = problems(written(tmp_path, "buckets: 0\nsource: {starting: somewhere}\nextra: 1\n"))
    assert len(text.splitlines()) == 3


def test_an_unknown_variable_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKAA__BOOTSTRAP_SERVERS", "a:1")
    assert "unknown variable REBALANCE_MONITOR_KAFKAA__BOOTSTRAP_SERVERS" in problems()
    assert "did you mean `kafka`?" in problems()


def test_what_kubernetes_sets_for_a_service_of_our_name_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = {
        "SERVICE_HOST": "10.96.0.12",
        "SERVICE_PORT": "8377",
        "SERVICE_PORT_HTTP": "8377",
        "PORT": "tcp://10.96.0.12:8377",
        "PORT_8377_TCP": "tcp://10.96.0.12:8377",
        "PORT_8377_TCP_PROTO": "tcp",
        "PORT_8377_TCP_PORT": "8377",
        "PORT_8377_TCP_ADDR": "10.96.0.12",
        "UI_SVC_SERVICE_HOST": "10.96.0.13",
        "UI_SVC_PORT_4040_TCP": "tcp://10.96.0.13:4040",
    }
    for name, value in links.items():
        monkeypatch.setenv(f"REBALANCE_MONITOR_{name}", value)
    assert load() == Settings()
    monkeypatch.setenv("REBALANCE_MONITOR_PORT", "8377")
    assert "unknown variable REBALANCE_MONITOR_PORT" in problems()
    monkeypatch.delenv("REBALANCE_MONITOR_PORT")
    monkeypatch.setenv("REBALANCE_MONITOR_WEBB__PORT", "tcp://a:1")
    assert "unknown variable REBALANCE_MONITOR_WEBB__PORT" in problems()


def test_a_list_in_the_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_PACKAGES", '["a:b:1"]')
    assert load().packages == ("a:b:1",)
    monkeypatch.setenv("REBALANCE_MONITOR_PACKAGES", "a:b:1")
    assert "write lists and maps as JSON" in problems()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [1\n", "is not valid YAML"),
        ("- 1\n", "must hold `key: value` lines, not a list"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in problems(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'none.yaml'} cannot be read: No such file" in problems(tmp_path / "none.yaml")


@pytest.mark.parametrize("typo", ["bootstrp_servers", "bootstrap.server", "boostrap_servers"])
def test_a_misspelt_address_is_refused_instead_of_watching_another_cluster(typo: str) -> None:
    with pytest.raises(ConfigError, match=r"did you mean `bootstrap_servers`"):
        load(flags={f"kafka.{typo}": "kafka-1:9092"})


def test_a_key_that_stands_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    text = "alerts:\n  minimum_severity: info\nbuckets: 2\nalerts:\n  hold: 1m\n"
    said = problems(written(tmp_path, text))
    assert "'alerts' stands twice" in said
    assert "line 4" in said


def test_what_yaml_merges_is_not_twice(tmp_path: Path) -> None:
    text = "detection: &usual {grace: 7ms, slow_sync: 8ms}\nsource: {}\n"
    assert load(written(tmp_path, text + "buckets: 3\n")).buckets == 3
    merged = "a: &a {x: 1}\nb: {<<: *a, x: 2}\n"
    assert "unknown key" in problems(written(tmp_path, merged))


def test_a_secret_in_the_place_of_its_section_is_not_reported(tmp_path: Path) -> None:
    text = "alerts: {receivers: [{name: sre, pagerduty: r0utingkey}], route: {receiver: sre}}\n"
    said = problems(written(tmp_path, text))
    assert "alerts.receivers.0.pagerduty" in said
    assert "r0utingkey" not in said


@pytest.mark.parametrize(
    "way",
    [
        "alertmanager: {urls: ['http://a:1'], resend_interval: 0s}",
        "webhook: {url: 'http://a:1', timeout: '0'}",
    ],
)
def test_what_must_take_time_may_not_take_none(tmp_path: Path, way: str) -> None:
    text = f"alerts: {{receivers: [{{name: sre, {way}}}], route: {{receiver: sre}}}}\n"
    assert "must be longer than 0" in problems(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: " + "[" * 100_000, "is not valid YAML: it is nested too deeply"),
        ("cluster_name: a\nbuckets: 2\0\n", "the character U+0000 may not stand in YAML, in line 2"),
        ("? [a]\n: 1\n", "a list or a map stands in the place of a key in line 1"),
        ("kafka: {security: {protocol: SSL}}\n", "write its whole name, as `security.protocol: …`"),
        ("kafka: {sasl.password: off}\n", "`sasl.password` is read as a truth value: put quotes around it"),
        ("cluster_name: no\n", "must be a text, which a truth value needs quotes to be, found False"),
        (
            'cluster_name: "a\\nb"\n',
            "`cluster_name` holds a line break: write one line of",
        ),
        (f"cluster_name: {'a' * 10_001}\n", "`cluster_name` has 10001 characters, and may have 10000"),
        ("web: {port: eighty}\n", "`web.port` in the file"),
        ("source: {skip: {3: 99999999999999999999}}\n", "names a partition or an offset that no topic has"),
        ("source: {fetch_max_wait: 30d}\n", "`fetch_max_wait` is longer than clients can wait"),
        ("source: {max_poll_records: 3000000000}\n", "`max_poll_records` must be a number up to 2147483647"),
    ],
    ids=range(12),
)
def test_a_file_that_cannot_mean_anything_is_refused_in_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    said = problems(written(tmp_path, text))
    assert sentence in said
    assert len(said) < 400 + len(str(tmp_path))
    assert "\n" not in said


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_file_in_another_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "monitor.yaml"
    path.write_bytes("cluster_name: Zürich\n".encode(encoding))
    assert f"{path} cannot be read: it is not in UTF-8" in problems(path)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("[" * 200_000, "`kafka` is no JSON, it is nested too deeply"),
        ('{"a": "hunter2', "`kafka` is no JSON, its character 7 is wrong"),
        ('{"a": "hunter2", "a": "b"}', "`kafka` is no JSON, a key stands twice"),
    ],
    ids=["deep", "cut", "twice"],
)
def test_a_variable_that_is_no_json_is_refused_without_its_text(
    monkeypatch: pytest.MonkeyPatch, value: str, wrong: str
) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKA", value)
    said = problems()
    assert f"in the environment: {wrong}; write lists and maps as JSON" in said
    assert "hunter2" not in said


def test_a_variable_in_two_spellings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_WEB__PORT", "1")
    monkeypatch.setenv("rebalance_monitor_web__port", "2")
    assert "REBALANCE_MONITOR_WEB__PORT and rebalance_monitor_web__port are both set" in problems()


def test_a_variable_that_is_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reads bytes that are not UTF-8 as halves of letters, which no client and no file takes."""
    monkeypatch.setenv("REBALANCE_MONITOR_CLUSTER_NAME", os.fsdecode(b"a\xff"))
    assert "`cluster_name` holds the character U+DCFF" in problems()
    monkeypatch.delenv("REBALANCE_MONITOR_CLUSTER_NAME")
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKA__CLIENT_ID", os.fsdecode(b"a\xff"))
    assert "`client.id` holds bytes that are no letters" in problems()


BARE = st.one_of(
    st.from_regex(r"[0-9][0-9._:eExo+-]{0,10}[0-9]", fullmatch=True),
    st.sampled_from(["0123", "12:30:45", "1_000", "0x1F", "1e5", "1.10", ".5", "=", "2026-01-01", "+1"]),
)


@given(BARE)
def test_a_bare_word_is_the_text_that_stands_there(word: str) -> None:
    """YAML 1.1 would make 83 of a password 0123, and the broker would refuse it."""
    given_ = from_yaml(f"kafka: {{sasl.password: {word}, client.id: {word}}}")
    assert isinstance(given_, dict)
    properties = Settings(**given_).kafka.client_properties()
    assert (properties["sasl.password"], properties["client.id"]) == (word, word)


@given(st.integers(0, 10**9), st.decimals(0, 1, places=2))
def test_a_number_of_json_is_the_text_that_stands_there(whole: int, share: Decimal) -> None:
    assert from_json(f'{{"a": {whole}, "b": [{share}]}}') == {"a": str(whole), "b": [str(share)]}


@pytest.mark.parametrize("word", ["2026-11-22", "7", "after-upgrade"])
def test_the_word_of_a_rebuild_may_be_what_yaml_takes_for_a_date_or_a_number(
    tmp_path: Path, word: str
) -> None:
    assert load(written(tmp_path, f"storage: {{rebuild: {word}}}\n")).storage.rebuild == word
    assert "storage.rebuild" in problems(written(tmp_path, "storage: {rebuild: [june]}\n"))
