"""Why brokers cannot be reached: one sentence for each cause, from a real broker with TLS, SCRAM and mTLS."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.trial import brokers_of, cause_of, require_answer
from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError
from rebalance_monitor.config.load import load
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports
from tests.cluster.support.secured import JAAS, LEAST, PASSWORD, USER, Certificates, SecuredBroker
from tests.cluster.support.strangers import answers, server
from tests.processes import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
STORES = ("ssl.truststore.location", "ssl.truststore.type")
DENIED, AWAY = AccessDeniedError, BrokerUnreachableError
# What differs from a login that works ("" takes a property away), the kind of the error, and its sentence.
CAUSES: list[tuple[dict[str, str], type[Exception], str]] = [
    (
        {"sasl.jaas.config": f'{JAAS} username="{USER}" password="no";'},
        DENIED,
        "{sasl} refuses our user or password.",
    ),
    (
        {"sasl.jaas.config": f'{JAAS} username="x" password="no";'},
        DENIED,
        "{sasl} refuses our user or password.",
    ),
    (
        {"sasl.mechanism": "SCRAM-SHA-256"},
        AWAY,
        "does not offer the mechanism SCRAM-SHA-256, only SCRAM-SHA-512.",
    ),
    ({"ssl.truststore.location": "{other}"}, AWAY, "The certificate of {sasl} is signed by no authority"),
    (
        dict.fromkeys(STORES, ""),
        AWAY,
        "The certificate of {sasl} is signed by no authority that is trusted here",
    ),
    ({"bootstrap_servers": "{localhost}"}, AWAY, "The certificate of {localhost} is for another name."),
    ({"bootstrap_servers": "{plain}"}, AWAY, "The broker at {plain} does not speak TLS."),
    (
        {"security.protocol": "SASL_PLAINTEXT", **dict.fromkeys(STORES, "")},
        AWAY,
        "The broker at {sasl} speaks TLS, and `security.protocol` is SASL_PLAINTEXT.",
    ),
    (
        {"security.protocol": "SASL_PLAINTEXT", "bootstrap_servers": "{plain}", **dict.fromkeys(STORES, "")},
        AWAY,
        "The broker at {plain} takes no login.",
    ),
    (
        {"bootstrap_servers": "{ssl}"},
        DENIED,
        "The broker at {ssl} requires a client certificate, and none is set.",
    ),
    (
        {"bootstrap_servers": "{ssl}", "ssl.keystore.location": "{foreign}"},
        DENIED,
        "{ssl} refuses our certificate.",
    ),
    (
        {"bootstrap_servers": "no-such-host.invalid:9092"},
        AWAY,
        "The name of no-such-host.invalid:9092 cannot be",
    ),
    (
        {"bootstrap_servers": "127.0.0.1:1"},
        AWAY,
        "Nothing listens at 127.0.0.1:1: the connection is refused.",
    ),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured"), ["SCRAM-SHA-512"]) as found:
        found.add_user()
        found.allow(*LEAST)
        yield found


@pytest.fixture(scope="module")
def names(broker: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    other = Certificates(tmp_path_factory.mktemp("other"))
    return {
        "sasl": broker.sasl,
        "ssl": broker.ssl,
        "plain": broker.bootstrap,
        "localhost": broker.sasl.replace("127.0.0.1", "localhost"),
        "other": str(other.authority),
        "foreign": str(other.issue("monitor")),
    }


def filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def properties(given: dict[str, str]) -> dict[str, str]:
    return load(flags={f"kafka.{name}": value for name, value in given.items()}).kafka.client_properties()


@pytest.mark.parametrize(("change", "kind", "sentence"), CAUSES, ids=range(len(CAUSES)))
def test_each_cause_is_one_sentence(
    broker: SecuredBroker, names: dict[str, str], change: dict[str, str], kind: type[Exception], sentence: str
) -> None:
    changed = broker.scram() | {name: filled(value, names) for name, value in change.items()}
    given = properties({name: value for name, value in changed.items() if value})
    with pytest.raises(kind) as told:
        ClusterAdmin(given)
    what, _, remedy = str(told.value).partition("\n")
    assert filled(sentence, names) in what
    assert remedy
    assert "\n" not in remedy
    assert PASSWORD not in str(told.value)


def test_what_works_is_no_cause(broker: SecuredBroker) -> None:
    for way in (broker.scram(), broker.mutual_tls()):
        assert cause_of(properties(way)) is None


def test_a_server_that_is_no_broker_and_one_that_is_mute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalance_monitor.cluster.clients.servers.SNIFF_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        monkeypatch.setattr("rebalance_monitor.cluster.clients.trial.TIMEOUT_S", 1.0)
        with pytest.raises(AWAY, match="takes the connection and does not answer as a Kafka broker"):
            require_answer({"bootstrap.servers": address})


class Misnamed(NamedTuple):
    """A broker's address, and those where it names itself as what cannot be reached, or is no broker."""

    plain: str
    unknown: str
    closed: str
    strange: str
    stranger: str


@pytest.fixture(scope="module")
def misnamed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Misnamed]:
    plain, controller, *ports = free_ports(5)
    with server(answers(bytes(60))) as stranger:
        advertised = dict(zip("ABC", ("broker-7.invalid:9092", "127.0.0.1:1", stranger), strict=True))
        own = f"PLAINTEXT://127.0.0.1:{plain}"
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in zip(advertised, ports, strict=True)]
        names = [*advertised, "PLAINTEXT", "CONTROLLER"]
        settings = {
            "listeners": ",".join([own, *listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join([own, *(f"{one}://{at}" for one, at in advertised.items())]),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        }
        folder = tmp_path_factory.mktemp("misnamed")
        with LabBroker(folder=folder, port=plain, settings=settings, offsets_partitions=4):
            addresses = (f"127.0.0.1:{port}" for port in (plain, *ports))
            yield Misnamed(*addresses, stranger)


@pytest.mark.parametrize(
    ("by", "advertised", "why"),
    [
        ("unknown", "broker-7.invalid:9092", "The name of broker-7.invalid:9092 cannot be resolved"),
        ("closed", "127.0.0.1:1", "Nothing"),
    ],
)
def test_a_listener_that_a_broker_advertises_is_named_where_it_does_not_answer(
    misnamed: Misnamed, by: str, advertised: str, why: str
) -> None:
    address = getattr(misnamed, by)
    given = {"bootstrap.servers": address}
    require_answer(given)
    cause = cause_of(given)
    assert isinstance(cause, AWAY)
    assert f"The brokers at {address} answer and name {advertised} as one of them. {why}" in cause.what
    assert "advertised.listeners" in cause.remedy


# librdkafka would end the process.
MET = (
    "import sys\n"
    "from rebalance_monitor.alerts.sinks.kafka import KafkaSink, SinkError\n"
    "from rebalance_monitor.cluster.clients.trial import require_answer\n"
    "from tests.alerts.sinks.notes import NOW, note\n"
    "given = {'bootstrap.servers': sys.argv[1]}\n"
    "try: require_answer(given)\n"
    "except Exception as error: print(error.what)\n"
    "try: KafkaSink('topic', 'alerts', given, timeout_s=2).send(note(), NOW)\n"
    "except SinkError as error: print(error.why + '.')\n"
)


def test_what_is_no_broker_at_an_advertised_address_is_named_before_a_client_meets_it(
    misnamed: Misnamed,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MET, misnamed.strange],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    require_answer({"bootstrap.servers": misnamed.plain})
    stranger = misnamed.stranger
    said = f"The brokers at {misnamed.strange} answer and name {stranger} as one of them."
    assert done.stdout.splitlines() == [f"{said} What answers at {stranger} is no Kafka broker."] * 2, done


def test_the_servers_count_as_answering_where_librdkafka_leaves_them_for_a_broker_that_does_not(
    misnamed: Misnamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_monitor.cluster.clients.trial.STEPS_S", (0.0, 0.001))
    monkeypatch.setattr("rebalance_monitor.cluster.clients.trial.TIMEOUT_S", 2.0)
    assert brokers_of({"bootstrap.servers": misnamed.closed}) == [("127.0.0.1", 1)]
