"""Wrong configurations, and the sentence that each gets: from `config check` and from `run`, by one path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalance_monitor.cli.main import run
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import Loaded, load, load_as_far
from rebalance_monitor.streaming.preflight import problems_of, valid
from tests.streaming.support.wrong_configurations import (
    KERBEROS,
    OAUTH,
    SCRAM,
    SECRET,
    USER,
    WRONG,
    alerting,
    kafka,
)

PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "configurations.md"
HEAD = """\
# Wrong configurations and what is said of each

There are {}. `config check` and `run` end with exit code 2 and the same sentences, before they ask a broker.
`{{tmp}}` is a folder with certificates. `tests/streaming/test_preflight.py` writes and holds this page.
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates and keys, right and wrong."""
    tmp_path = tmp_path_factory.mktemp("files")
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from tests.cluster.support.secured import Certificates

    made = Certificates(tmp_path / "made")
    both = made.issue("monitor").read_bytes()
    key = load_pem_private_key(both, None)
    pem, openssl, locked = form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, form.PrivateFormat.PKCS8
    certificates = both[both.index(b"-----BEGIN CERTIFICATE") :]
    (tmp_path / "ca.pem").write_bytes(made.authority.read_bytes())
    (tmp_path / "empty.pem").write_text("")
    (tmp_path / "key.pem").write_bytes(both)
    (tmp_path / "good.pem").write_bytes(both)
    (tmp_path / "pkcs1.pem").write_bytes(key.private_bytes(pem, openssl, form.NoEncryption()) + certificates)
    closed = key.private_bytes(pem, locked, form.BestAvailableEncryption(SECRET.encode()))
    (tmp_path / "locked.pem").write_bytes(closed + certificates)
    return tmp_path


def filled(value: Any, folder: Path) -> Any:  # noqa: ANN401 - any part of a configuration
    if isinstance(value, dict):
        return {key: filled(part, folder) for key, part in value.items()}
    if isinstance(value, list):
        return [filled(part, folder) for part in value]
    return value.replace("{tmp}", str(folder)) if isinstance(value, str) else value


def page(files: Path) -> str:
    """Return the page of the wrong configurations that need no Java, each with its first sentence."""
    rows = []
    for wrong in (row[0] for row in WRONG if not getattr(row, "marks", ())):
        (path := files / "c.yaml").write_text(yaml.safe_dump(filled(wrong, files)))
        with pytest.raises(ConfigError) as told:
            valid(load_as_far(path))
        given = yaml.safe_dump(wrong, default_flow_style=True, width=10_000, sort_keys=False).strip()
        given = given.replace(f"{SCRAM} required {USER};", "ScramLoginModule …;")
        said = (told.value.problems or [str(told.value)])[0].partition("\n")[0]
        cells = (" ".join(f"`` {given} ``".split()), said.replace(str(files), "{tmp}").replace("<", "&lt;"))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    head = "| configuration | first sentence |\n|---|---|\n"
    return f"{HEAD.format(len(rows))}\n{head}{''.join(rows)}".replace(SECRET, "…")


@pytest.mark.parametrize(("wrong", "sentence"), WRONG, ids=range(len(WRONG)))
def test_each_wrong_configuration_gets_its_sentence_from_every_verb(
    wrong: dict[str, Any], sentence: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {}
    (path := files / "c.yaml").write_text(yaml.safe_dump(filled(wrong, files)))
    for verb in (("config", "check"), ("run", "--available-now")):
        assert run([*verb, "--config", str(path)]) == 2
        said[verb] = capsys.readouterr().err
    assert len(set(said.values())) == 1, said
    told = said["config", "check"]
    assert sentence.replace("{tmp}", str(files)) in told
    assert told.count(sentence.replace("{tmp}", str(files))) == 1
    assert SECRET not in told
    assert "Traceback" not in told


def test_the_page_of_wrong_configurations_says_what_the_monitor_says(files: Path) -> None:
    """WRITE_PAGES=1 writes a page that is out of date again."""
    text = page(files)
    if os.environ.get("WRITE_PAGES") == "1":
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "right",
    [
        {},
        kafka(),
        kafka(security__protocol=" sasl_ssl", sasl__mechanism="scram-sha-512\n"),
        kafka(ssl__truststore__location="{tmp}/ca.pem", ssl__keystore__location="{tmp}/good.pem"),
        kafka(ssl__keystore__location="{tmp}/locked.pem", ssl__key__password=SECRET),
        kafka(sasl__jaas__config=None, sasl__username="u", sasl__password=SECRET),
        {"kafka": {"bootstrap_servers": " a:9092 ,[::1]:9092,"}},
        {"kafka": {"bootstrap_servers": ["a:9092", "b:9092"]}},
        {**kafka(), "alerts": alerting(kafka={"topic": "t"})},
        {**OAUTH, "alerts": alerting(kafka={"topic": "t"})},
        KERBEROS,
        kafka(sasl__login__callback__handler__class="org.acme.Vault"),
    ],
)
def test_what_all_clients_read_alike_is_taken(right: dict[str, Any], files: Path) -> None:
    assert not list(problems_of(load(flags=filled(right, files))))


def test_all_problems_are_reported_at_once(files: Path) -> None:
    wrong = {**kafka(ssl__truststore__location="{tmp}/nowhere.pem"), "jars": ["{tmp}/nowhere.jar"]}
    with pytest.raises(ConfigError) as told:
        valid(load_as_far(flags=filled(wrong, files)))
    assert len(told.value.problems) == 2


def test_what_a_section_means_is_reported_beside_the_sections_that_cannot_be_read(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a section whose own words are wrong only these words are named."""
    monkeypatch.setenv("REBALANCE_MONITOR_PROOBE", "1")
    wrong = {
        **kafka(),
        "trigger": 5,
        "storge": {"path": "x"},
        "detection": {"severity_overrides": [{"kind": "storrm", "severity": "info"}]},
        "alerts": {"receivers": [{"name": "sre", "console": {}}], "route": {"receiver": "sree"}},
        "web": {"host": "0.0.0.0", "token_file": 3},  # noqa: S104 - refused
    }
    with pytest.raises(ConfigError) as told:
        valid(load_as_far(flags=filled(wrong, files)))
    said = "\n".join(told.value.problems)
    for word in ("PROOBE", "`trigger`", "`storge`", "'storrm'", "sree", "`web.token_file`"):
        assert word in said
    assert len(told.value.problems) == 6


def test_a_key_without_its_password_asks_no_terminal(files: Path) -> None:
    """OpenSSL would, and a job would stand there for ever."""
    settings = load(flags=filled(kafka(ssl__keystore__location="{tmp}/locked.pem"), files))
    with pytest.raises(ConfigError, match="is encrypted"):
        valid(Loaded(settings, {}, []))
    wrong = kafka(ssl__keystore__location="{tmp}/locked.pem", **{"ssl.key.password": "x"})
    settings = load(flags=filled(wrong, files))
    with pytest.raises(ConfigError, match=r"or `ssl.key.password` is wrong"):
        valid(Loaded(settings, {}, []))


@pytest.mark.parametrize("scheme", ["s3a", "abfss", "gs", "dbfs", "o3fs", "hdfs"])
def test_a_platforms_own_jvm_alone_says_whether_it_has_a_file_system(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Python's libraries may not know it, or not how to reach it."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    uri = f"{scheme}://bucket.invalid/monitor"
    settings = load(flags={"storage.path": uri, "kafka.bootstrap_servers": "b:9092"})
    assert [problem for problem in problems_of(settings) if scheme in problem] == []
    secret = load(flags={"storage.path": f"{uri}?secret_key=x", "kafka.bootstrap_servers": "b:9092"})
    assert any("it would be printed" in problem for problem in problems_of(secret))


def test_a_check_asks_nobody_where_a_bucket_lies() -> None:
    """pyarrow asks AWS for the region of a bucket that has none in its URI: a check needs no network."""
    for uri in ("s3://bucket/monitor", "S3://bucket/monitor", "s3a://bucket/monitor?scheme=https"):
        settings = load(flags={"storage.path": uri, "kafka.bootstrap_servers": "b:9092"})
        assert not list(problems_of(settings))
    settings = load(flags={"storage.path": "s3:///monitor", "kafka.bootstrap_servers": "b:9092"})
    assert any("Missing bucket name" in problem for problem in problems_of(settings))
