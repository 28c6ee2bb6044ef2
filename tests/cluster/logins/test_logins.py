"""OAuth and Kerberos on a real broker, a real KDC and real tokens: every verb, with the blocks of the docs.

Tokens and tickets are short: they expire, and are renewed, while the tests run.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.ends.ends import EndsThread
from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
from rebalance_monitor.cluster.logins.tokens import shared_token
from rebalance_monitor.cluster.probe.probe import ProbeThread
from rebalance_monitor.config.kafka.logins import JAAS, TOKEN_URL
from rebalance_monitor.config.load import load
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.clock import Clock
from tests.cluster.support.identity_provider import SECRET, IdentityProvider, new_key
from tests.cluster.support.kdc import PRINCIPAL, Kdc, kerberos_broker, missing_programs
from tests.cluster.support.login_broker import LoginBroker, delegation_token, oauth_broker, scram_broker
from tests.cluster.support.login_page import block
from tests.cluster.support.login_site import Site, as_the_page_says, of_client
from tests.cluster.support.proofs import (
    records_of_topic,
    require_capture,
    require_probe_and_ends,
    require_watch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.probe.sample import ProbeSample

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
TOKEN_S, TICKET, LASTS_S = 12, "20s", 30


@pytest.fixture(scope="module")
def oauth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("oauth")
    with IdentityProvider(TOKEN_S) as provider, oauth_broker(folder, provider) as broker:
        seed(broker)
        replaced = {
            "broker-1:9095": broker.sasl,
            "SASL_SSL": "SASL_PLAINTEXT",
            "https://idp.example/token": f"{provider.url}/token",
            "…": SECRET,
        }
        yield Site(broker, block("OAuth client credentials", replaced), provider)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kdc, LoginBroker]]:
    if missing := missing_programs():
        pytest.skip(f"{', '.join(missing)} not installed (make deps-ci)")
    folder = tmp_path_factory.mktemp("kerberos")
    with pytest.MonkeyPatch.context() as patch, Kdc(folder / "kdc", TICKET, Clock(folder)) as kdc:
        for name in ("KRB5_CONFIG", "KRB5CCNAME"):
            patch.setenv(name, kdc.environment[name])
        with kerberos_broker(folder / "broker", kdc) as broker:
            seed(broker)
            yield kdc, broker


def of_realm(kdc: Kdc, broker: LoginBroker, storing: str) -> Site:
    """The docs' login; `storing`: what stands for one of its options."""
    replaced = {
        "broker-1.example:9096": broker.sasl,
        "SASL_SSL": "SASL_PLAINTEXT",
        "storeKey=true": storing,
        "/etc/security/monitor.keytab": str(kdc.folder / "monitor.keytab"),
        "monitor@EXAMPLE": PRINCIPAL,
        "/etc/krb5.conf": str(kdc.config),
    }
    return Site(broker, block("Kerberos", replaced), kdc)


@pytest.fixture(scope="module")
def kerberos(realm: tuple[Kdc, LoginBroker]) -> Iterator[Site]:
    """By Java, also where the package is installed: it does not know that option."""
    found = of_realm(*realm, "storeKey=true debug=false")
    SHARED_JVM.configure(load(flags={"spark": found.config["spark"]}), lambda: None)
    yield found
    SHARED_JVM.close()


@pytest.fixture(scope="module")
def gssapi(realm: tuple[Kdc, LoginBroker]) -> Site:
    """By the package of the extra `kerberos`; its tests are collected where it is installed."""
    return of_realm(*realm, "storeKey=true")


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with scram_broker(tmp_path_factory.mktemp("token")) as broker:
        seed(broker)
        name, hmac = delegation_token(broker)
        replaced = {"broker-1:9093": broker.sasl, "SASL_SSL": "SASL_PLAINTEXT", "TOKEN-ID": name, "…": hmac}
        yield Site(broker, block("Delegation token", replaced), None)


@pytest.fixture(params=["oauth", "kerberos", "token", *(["gssapi"] if find_spec("gssapi") else [])])
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    return found


def seed(broker: LoginBroker) -> None:
    """Have a topic, and a group that consumes it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
    rebalance(broker, "orders")


def rebalance(broker: LoginBroker, group: str) -> None:
    """Have a group rebalance and commit."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.subscribe(["orders"])
    # Until then the group takes no commit of it.
    until = time.monotonic() + 120
    while not consumer.assignment() and time.monotonic() < until:
        consumer.poll(0.2)
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()


@pytest.mark.spark
def test_doctor_has_nothing_to_say_and_names_the_clients(site: Site, tmp_path: Path) -> None:
    require_doctor_names_clients(site, tmp_path)


def require_doctor_names_clients(site: Site, tmp_path: Path) -> None:
    done = site.verb(tmp_path, "doctor", "-o", "json")
    results = {one["check"]: one for one in json.loads(done.stdout)}
    assert {name: one for name, one in results.items() if one["verdict"] != "ok"} == {}, done.stderr
    assert done.returncode == 0
    assert "kafka-python" in results["login"]["found"]
    assert "delivers records" in results["through Spark"]["found"]


@pytest.mark.spark
def test_the_job_outlives_a_token_endpoint_that_is_away_and_reports_it(oauth: Site, tmp_path: Path) -> None:
    provider, told = oauth.prover, tmp_path / "data" / "findings.jsonl"
    assert isinstance(provider, IdentityProvider)

    def has(*words: str) -> bool:
        lines = told.read_text().splitlines() if told.exists() else []
        return any(all(word in line for word in words) for line in lines)

    log = (tmp_path / "log").open("w")
    with log, subprocess.Popen(oauth.command(tmp_path, "run"), stdout=log, stderr=log) as job:
        try:
            assert wait_until(lambda: has('"orders"'), 300)
            provider.answers = False
            assert wait_until(lambda: has("monitor_degraded", "opened", "The token endpoint"), 300)
            provider.answers = True
            rebalance(oauth.broker, "later")
            assert wait_until(lambda: has('"later"'), 300)
            assert wait_until(lambda: has("monitor_degraded", "resolved"), 300)
        finally:
            provider.answers = True
            job.terminate()
            assert job.wait(120) == 0, (tmp_path / "log").read_text()


def test_watch_capture_probe_and_ends_work(site: Site, tmp_path: Path) -> None:
    require_local_clients(site, tmp_path)


def require_local_clients(site: Site, tmp_path: Path) -> None:
    records = records_of_topic(site.properties())
    said = require_watch(site.command(tmp_path / "watch", "watch", "-o", "jsonl"), tmp_path)
    assert "4 partitions, " in said
    assert f"{records} records read" in said
    copy = tmp_path / "copy"
    copying = site.command(tmp_path, "capture", str(copy), "--until-end", "--probe")
    assert require_capture(copying, copy) == records
    require_probe_and_ends(site.properties(), "orders")


def test_probe_and_ends_go_on_while_tokens_and_tickets_expire(oauth: Site, kerberos: Site) -> None:
    # A ticket is renewed once a minute at most, by default.
    often = {"sasl.kerberos.min.time.before.relogin": "1000"}
    with ExitStack() as stack:
        asking = [
            (
                stack.enter_context(ProbeThread(given, 0.5)),
                stack.enter_context(EndsThread(given, orders, 0.5)),
            )
            for given in (oauth.properties(), kerberos.properties(often))
        ]
        answers: list[tuple[list[ProbeSample], list[EndsSample]]] = [([], []) for _ in asking]

        def goes_on() -> bool:
            for (probe, ends), (looks, samples) in zip(asking, answers, strict=True):
                looks.extend(probe.drain())
                samples.extend(ends.drain())
            return all(len(looks) > LASTS_S / 2 and samples for looks, samples in answers)

        time.sleep(LASTS_S)
        assert wait_until(goes_on, 4 * LASTS_S)
    for looks, samples in answers:
        assert [look.failures for look in looks if look.failures] == []
        assert [sample.partial for sample in samples if sample.partial] == []
        assert {sample.latest["orders"] for sample in samples} == {(0, 0)}
    assert isinstance(oauth.prover, IdentityProvider)
    assert len(oauth.prover.issued) > LASTS_S / TOKEN_S


def orders() -> set[str]:
    """The topics whose ends are asked for."""
    return {"orders"}


def test_a_token_in_a_file_is_sent_by_java(oauth: Site, tmp_path: Path) -> None:
    provider = oauth.prover
    assert isinstance(provider, IdentityProvider)
    (tmp_path / "token").write_text(provider.token())
    with ClusterAdmin(oauth.properties({TOKEN_URL: f"file://{tmp_path}/token"})) as admin:
        assert "orders" in {group["group_id"] for group in admin.list_groups(1)}


def test_a_token_endpoint_that_is_away_is_named_once_no_token_holds_and_missed_no_more_after(
    oauth: Site,
) -> None:
    provider = oauth.prover
    assert isinstance(provider, IdentityProvider)
    with ProbeThread(oauth.properties(), 0.5) as probe:
        try:
            provider.answers = False
            assert wait_until(lambda: any("token endpoint" in why for why in failures(probe)), 180)
        finally:
            provider.answers = True
        assert wait_until(lambda: failures(probe) == [""], 180)


@pytest.mark.parametrize("by", ["kerberos", *(["gssapi"] if find_spec("gssapi") else [])])
def test_a_keytab_that_goes_bad_while_it_runs_is_named_and_one_exported_anew_is_taken_up(
    request: pytest.FixtureRequest, by: str
) -> None:
    site = request.getfixturevalue(by)
    kdc = site.prover
    assert isinstance(kdc, Kdc)
    # Of the same user, so that the broker lets it ask.
    principal, keytab = f"monitor/{by}@LAB.TEST", f"spoilt-{by}.keytab"
    kdc.add(principal, keytab)
    often = {"sasl.kerberos.min.time.before.relogin": "1000"}
    line = site.config["kafka"][JAAS].replace("monitor.keytab", keytab).replace(PRINCIPAL, principal)
    with ProbeThread(site.properties({JAAS: line, **often}), 0.5) as probe:
        assert wait_until(lambda: failures(probe) == [""], 180)
        kdc.new_key(principal)
        named = f"The key in the keytab is not the key of {principal}: it has been changed since."
        assert wait_until(lambda: any(named in why for why in failures(probe)), 180)
        kdc.export(principal, keytab)
        assert wait_until(lambda: failures(probe) == [""], 180)


def failures(probe: ProbeThread) -> list[str]:
    """What the newest look says of its failures."""
    looks = probe.drain()
    return [" ".join(looks[-1].failures.values())] if looks else []


@pytest.mark.parametrize(
    ("changed", "kind", "sentence"),
    [
        ({JAAS: of_client(clientSecret="no")}, AccessDeniedError, "refuses our client 'monitor': Client"),
        ({JAAS: of_client(scope="no")}, AccessDeniedError, "refuses our client 'monitor': invalid_scope"),
        (
            {TOKEN_URL: "http://127.0.0.1:1/token"},
            BrokerUnreachableError,
            as_the_page_says(
                "KDC or token endpoint away", "https://idp.example/token", "http://127.0.0.1:1/token"
            ),
        ),
    ],
)
def test_what_is_wrong_with_client_credentials_is_reported(
    oauth: Site, changed: dict[str, str], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind) as told:
        ClusterAdmin(oauth.properties(changed))
    assert sentence in str(told.value)
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    ("wrong", "kind", "sentence"),
    [
        ({"signer": new_key()}, AccessDeniedError, "refuses our access token"),
        (
            {"clock_s": -600},
            BrokerUnreachableError,
            as_the_page_says("expired token", "582", r"(58|59|60)\d").removeprefix("… "),
        ),
    ],
)
def test_a_token_that_is_not_taken_is_reported(
    oauth: Site, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    given = oauth.properties({"client.id": f"of {min(wrong)}"})
    for name, value in wrong.items():
        monkeypatch.setattr(oauth.prover, name, value)
    shared_token(given).forget()
    with pytest.raises(kind, match=sentence):
        ClusterAdmin(given)
    shared_token(given).forget()


def test_a_broker_that_refuses_what_java_says_of_us_is_reported(token: Site) -> None:
    line = token.config["kafka"][JAAS]
    with pytest.raises(AccessDeniedError, match=r"refuses our login by SCRAM-SHA-512") as told:
        ClusterAdmin(token.properties({JAAS: line.replace('password="', 'password="x')}))
    assert "password" not in str(told.value)


@pytest.mark.parametrize(
    ("wrong", "kind", "sentence"),
    [
        ("nobody", AccessDeniedError, as_the_page_says("principal", "monitor@EXAMPLE", "nobody@LAB.TEST")),
        ("old key", AccessDeniedError, as_the_page_says("keytab", "monitor@EXAMPLE", "other@LAB.TEST")),
        ("no keytab", AccessDeniedError, "cannot be read, or holds no key of monitor@LAB.TEST."),
        ("service", AccessDeniedError, "The KDC knows no service kafkaesque of the broker's host."),
        ("clock", AccessDeniedError, as_the_page_says("clock, 10 minutes off")),
        ("away", BrokerUnreachableError, "What the login asks, a KDC or a token endpoint, does not answer"),
    ],
)
def test_what_is_wrong_with_a_kerberos_login_is_reported(
    kerberos: Site, wrong: str, kind: type[Exception], sentence: str
) -> None:
    kdc = kerberos.prover
    assert isinstance(kdc, Kdc)
    login = spoilt(kdc, wrong)
    try:
        with pytest.raises(kind) as told:
            ClusterAdmin(kerberos.properties(login))
    finally:
        kdc.clock.set(0)
        if wrong == "away":
            kdc.start()
    assert sentence in str(told.value)


def spoilt(kdc: Kdc, wrong: str) -> dict[str, str]:
    """A login that cannot work, with a principal of its own where the principal is to blame for nothing."""
    if wrong == "no keytab":
        return kdc.login("missing.keytab")
    if wrong == "service":
        return {**kdc.login(), "sasl.kerberos.service.name": "kafkaesque"}
    name = f"{'nobody' if wrong == 'nobody' else 'other'}@LAB.TEST"
    kdc.add(name, f"{wrong.replace(' ', '-')}.keytab")
    if wrong == "nobody":
        kdc.remove(name)
    elif wrong == "old key":
        kdc.new_key(name)
    elif wrong == "clock":
        kdc.clock.set(600)
    else:
        kdc.stop()
    return kdc.login(f"{wrong.replace(' ', '-')}.keytab", name)
