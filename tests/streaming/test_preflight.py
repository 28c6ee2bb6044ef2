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

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "hunter2hunter2"  # noqa: S105 - made up, to be looked for
USER = f'username="monitor" password="{SECRET}"'
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f"{SCRAM} required {USER};",
}
HOOK = {"url": "https://hooks.example/x"}


def alerting(**ways: object) -> dict[str, Any]:
    return {"receivers": [{"name": "a", **ways}], "route": {"receiver": "a"}}


def kafka(**changes: object) -> dict[str, Any]:
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return {"kafka": {name: value for name, value in (LOGIN | changed).items() if value is not None}}


OAUTH = kafka(
    sasl__mechanism="OAUTHBEARER",
    sasl__jaas__config="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'clientId="monitor" clientSecret="{SECRET}";',
    sasl__login__callback__handler__class="org.apache.kafka.common.security.oauthbearer"
    ".OAuthBearerLoginCallbackHandler",
    sasl__oauthbearer__token__endpoint__url="https://idp.invalid/token",  # noqa: S106 - an address
)
KERBEROS = kafka(
    sasl__mechanism="GSSAPI",
    sasl__jaas__config="com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;",
    sasl__kerberos__service__name="kafka",
)
# What is wrong, and the sentence. `{tmp}` is a folder with the files below.
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"kafka": {"security.protocol": "SASL-SSL"}},
        (
            "`security.protocol` must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not "
            "'SASL-SSL': did you mean SASL_SSL?"
        ),
    ),
    ({"kafka": {"security.protocol": "TLS"}}, "not 'TLS': did you mean SSL?"),
    ({"kafka": {"security.protocol": ""}}, "`security.protocol` must be one of"),
    (
        kafka(sasl__mechanism="SCRAM-SHA512"),
        (
            "`sasl.mechanism` must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI, "
            "AWS_MSK_IAM, not 'SCRAM-SHA512': did you mean SCRAM-SHA-512?"
        ),
    ),
    (kafka(sasl__mechanism="DIGEST-MD5"), "`sasl.mechanism` must be one of PLAIN"),
    (kafka(sasl__mechanism="OAUTHBEARER"), "OAUTHBEARER logs in with OAuthBearerLoginModule"),
    (KERBEROS | {"source": {"reader": "python"}}, "that does not log in by Kerberos: leave it at `spark`"),
    (
        KERBEROS | {"alerts": alerting(kafka={"topic": "incidents"})},
        "librdkafka, which writes here, does not log in by Kerberos: give `properties` with a login",
    ),
    (kafka(sasl__mechanism=None), "the property `kafka: sasl.mechanism` is missing"),
    (kafka(sasl__mechanism="PLAIN"), "names ScramLoginModule, and PLAIN logs in with PlainLoginModule"),
    (kafka(sasl__jaas__config=None), "the login is missing: set `kafka: sasl.jaas.config`, or"),
    (
        kafka(sasl__jaas__config=f"{SCRAM} required {USER}"),
        "`kafka: sasl.jaas.config` cannot be read: it must end with `;`",
    ),
    (kafka(sasl__jaas__config=f"KafkaClient {{ {SCRAM} required {USER}; }};"), "it is a whole JAAS file"),
    (
        kafka(sasl__jaas__config=f'x.OAuthBearerLoginModule required token="{SECRET}";'),
        "logs in with ScramLoginModule",
    ),
    (
        kafka(sasl__username="another"),
        "`kafka: sasl.username` and `kafka: sasl.jaas.config` differ in the username",
    ),
    (
        kafka(security__protocol=None),
        (
            "`kafka: sasl.jaas.config` logs in, and `security.protocol` is PLAINTEXT, the default, "
            "which does not"
        ),
    ),
    (kafka(security__protocol="SSL"), "logs in, and `security.protocol` is SSL, which does not"),
    (
        {"kafka": {"ssl.truststore.location": "{tmp}/ca.pem"}},
        "is for TLS, and `security.protocol` is PLAINTEXT, the default, which has none",
    ),
    (
        kafka(ssl__truststore__location="{tmp}/ca.pem", security__protocol="SASL_PLAINTEXT"),
        "which has none: set it to SASL_SSL",
    ),
    (
        kafka(ssl__truststore__location="{tmp}/nowhere.pem"),
        "`kafka: ssl.truststore.location` names {tmp}/nowhere.pem, which cannot be read: No such file",
    ),
    (
        kafka(ssl__truststore__location="{tmp}/empty.pem"),
        "{tmp}/empty.pem, which holds no certificate in PEM form",
    ),
    (
        kafka(ssl__truststore__location="{tmp}/trust.jks"),
        "names {tmp}/trust.jks, which cannot be read: No such file",
    ),
    pytest.param(
        kafka(ssl__truststore__location="{tmp}/ca.pem", ssl__truststore__type="PKCS12"),
        "names {tmp}/ca.pem, which Java cannot read: toDerInputStream rejects",
        marks=pytest.mark.spark,
    ),
    (kafka(ssl__keystore__location="{tmp}/ca.pem"), "{tmp}/ca.pem, which holds no private key in PEM form"),
    (
        kafka(ssl__keystore__location="{tmp}/pkcs1.pem"),
        "not in the form of PKCS#8, which Spark's client needs",
    ),
    (kafka(ssl__keystore__location="{tmp}/locked.pem"), "is encrypted, and `ssl.key.password` is not set"),
    (
        kafka(ssl__certificate__location="{tmp}/ca.pem", ssl__key__location="{tmp}/key.pem"),
        "does not fit the first certificate",
    ),
    (
        kafka(ssl__endpoint__identification__algorithm="off"),
        "must be https, or empty for no check of host names, not 'off'",
    ),
    (kafka(ssl__engine__factory__class="x.Y"), "has no counterpart in the Python clients"),
    ({"kafka": {"request.timeout.ms": "30s"}}, "`request.timeout.ms` must be a whole number, not '30s'"),
    ({"kafka": {"request.timeout.ms": "1_000"}}, "`request.timeout.ms` must be a whole number"),
    ({"kafka": {"client.dns.lookup": "default"}}, "`client.dns.lookup` must be one of"),
    (
        {"kafka": {"metadata.max.age.ms": "0"}},
        'the Kafka client refuses `kafka:`: Configuration property "metadata.max.age.ms"',
    ),
    ({"kafka": {"bootstrap_servers": ""}}, "`kafka.bootstrap_servers` in the file {tmp}/c.yaml: is empty"),
    ({"kafka": {"bootstrap_servers": []}}, "is empty: write `host:port`"),
    ({"kafka": {"bootstrap_servers": "SASL_SSL://kafka:9093"}}, "begins with a scheme: leave it out"),
    ({"kafka": {"bootstrap_servers": "a:9092;b:9092"}}, "separate several by commas"),
    ({"kafka": {"bootstrap_servers": "a:9092 b:9092"}}, "separate several by commas"),
    ({"kafka": {"bootstrap_servers": "kafka"}}, "has the entry 'kafka', which has no port: write kafka:9092"),
    ({"kafka": {"bootstrap_servers": "kafka:99999"}}, "which has no port from 1 to 65535"),
    ({"kafka": {"bootstrap_servers": "::1:9092"}}, "write an IPv6 address as [::1]:9092"),
    (
        {"kafka": {"bootstrap_servers": f"u:{SECRET}@kafka:9092"}},
        "has the entry 'kafka:9092', which is not `host:port`",
    ),
    ({"kafka": {"bootstrap_servers": [{"kafka": 9092}]}}, "is not `host:port`"),
    (
        {"kafka": {"sasl.jaas.config_file": "{tmp}/nowhere"}},
        "`sasl.jaas.config_file` names {tmp}/nowhere, which cannot be read",
    ),
    ({"jars": ["{tmp}/nowhere.jar"]}, "The jar {tmp}/nowhere.jar does not exist."),
    ({"packages": ["spark-sql-kafka"]}, "`spark-sql-kafka` is not a package coordinate."),
    (
        {"spark": {"spark.sql.shuffle.partitions": "two"}},
        "spark.sql.shuffle.partitions must be a whole number",
    ),
    ({"storage": {"path": "s3x://bucket/monitor"}}, "s3x://bucket/monitor cannot be used"),
    ({"detection": {"severity_overrides": [{"kind": "strom", "severity": "info"}]}}, "strom"),
    (
        {"web": {"host": "::", "token_file": "{tmp}/nowhere"}},
        "`web.token_file` names {tmp}/nowhere, which cannot be read",
    ),
    (
        {"alerts": alerting(webhook=HOOK | {"ca_file": "{tmp}/nowhere.pem"})},
        "`ca_file` names {tmp}/nowhere.pem, which cannot be used: No such file",
    ),
    (
        {"alerts": alerting(webhook=HOOK | {"ca_file": "{tmp}/empty.pem"})},
        "`ca_file` names {tmp}/empty.pem, which cannot be used: it holds no PEM",
    ),
    (
        {"alerts": alerting(webhook=HOOK | {"proxy": f"ftp://u:{SECRET}@proxy"})},
        "`proxy` must be an address that begins with",
    ),
    (
        {"alerts": alerting(kafka={"topic": "t", "properties": {"security.protocol": "TLS"}})},
        "not 'TLS': did you mean SSL?",
    ),
    (
        {"alerts": alerting(kafka={"topic": "t", "properties": {"bootstrap.servers": "a"}})},
        "`bootstrap.servers` has the entry 'a', which has no port",
    ),
    ({"kafka": {"bootstrap_servers": "a..b:9092"}}, "has the entry 'a..b:9092', which is not `host:port`"),
    ({"kafka": {"bootstrap_servers": "<broker>:9092"}}, "has the entry '<broker>:9092', which is not"),
    ({"kafka": {"request.timeout.ms": 99999999999999}}, "must be a whole number up to 2147483647"),
    ({"kafka": {"fetch.max.bytes": "50MB"}}, "`fetch.max.bytes` must be a whole number, not '50MB'"),
    ({"kafka": {"max.poll.records": "0"}}, "may not be set: use `source.max_poll_records`"),
    (
        kafka(
            sasl__mechanism="GSSAPI",
            sasl__jaas__config="com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            'keyTab="{tmp}/nowhere" principal="monitor";',
            sasl__kerberos__service__name="kafka",
        ),
        "`keyTab` in `kafka: sasl.jaas.config` names {tmp}/nowhere, which cannot be read",
    ),
    (
        {"source": {"topic": "consumer offsets"}},
        "must be a topic's name, up to 249 letters, digits, dots, dashes and underscores",
    ),
    ({"storage": {"path": "s3://"}}, "names no place: write a path, or a URI such as s3://bucket/monitor"),
    ({"storage": {"path": f"s3:u:{SECRET}@monitor"}}, "names no place: write a path, or a URI"),
    ({"storage": {"path": "{tmp}/key.pem/monitor"}}, "leads to {tmp}/key.pem, which is no folder"),
    (
        {"spark": {"spark.master": "yarn cluster"}},
        "spark.master must be local[n], yarn, k8s://… or spark://…",
    ),
    ({"spark": {"spark.driver.memory": "2 GB"}}, "spark.driver.memory must be a size such as 2g or 512m"),
    (
        {"alerts": alerting(webhook={"url": f"https://hooks example/{SECRET}"})},
        "`url` must name a host, and a port only from 1 to 65535, without blanks",
    ),
    (
        {"alerts": alerting(alertmanager={"urls": ["http://alertmanager:port"]})},
        "`urls` must name a host, and a port only from 1 to 65535",
    ),
    (
        {"alerts": alerting(kafka={"topic": "__consumer_offsets"})},
        "must be a topic of its own: brokers alone write __consumer_offsets",
    ),
    ({"alerts": alerting(kafka={"topic": "alerts/prod"})}, "must be a topic's name"),
    (
        {"kafka": {"securty.protocol": "SSL"}},
        "`securty.protocol` is unknown; did you mean `security.protocol`?",
    ),
    ({"kafka": {"Security.Protocol": "SSL"}}, "did you mean `security.protocol`?"),
    (
        kafka(ssl__key__password="a\0b"),  # noqa: S106 - refused
        "`ssl.key.password` holds the character NUL: write it as text in UTF-8",
    ),
    ({"storage": {"path": "a\0b"}}, "must be a path or URI of up to 1024 printable characters"),
    ({"spark": {"spark.master ": "local[2]"}}, "its name must begin with `spark.` and have no blanks"),
    ({"trigger": "٣s"}, "`trigger` in the file {tmp}/c.yaml: '٣s' is no duration"),
]


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
    """Nothing is told of a section whose own words are wrong but these words."""
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
