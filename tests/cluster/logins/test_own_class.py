"""A login handler of one's own, compiled here and named by its class, for every client; by `make chaos`.

Its tokens come from a file, and expire while the tests run.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")
pytest.importorskip("pyspark")

from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
from rebalance_monitor.config.load import load
from tests.cluster.logins.test_logins import Site, require_doctor_names_clients, require_local_clients, seed
from tests.cluster.support.identity_provider import IdentityProvider
from tests.cluster.support.login_broker import oauth_broker
from tests.cluster.support.login_page import block

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
SOURCES = Path(__file__).parents[1] / "support" / "java"
TOKEN_S, WRITTEN_S = 12, 2.0


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("own")
    jars = resolve_spark_kafka(*installed_spark())
    jar = compiled(folder / "classes", jars)
    with (
        IdentityProvider(TOKEN_S) as provider,
        written(provider, folder / "token"),
        oauth_broker(folder / "broker", provider) as broker,
    ):
        seed(broker)
        replaced = {
            "broker-1:9095": broker.sasl,
            "SASL_SSL": "SASL_PLAINTEXT",
            "/run/secrets/token": str(folder / "token"),
        }
        config = block("By a class of Java's", replaced)
        config["jars"] = [str(path) for path in (*jars, jar)]
        SHARED_JVM.configure(load(flags={"jars": config["jars"]}), lambda: None)
        yield Site(broker, config, provider)
        SHARED_JVM.close()


def compiled(classes: Path, jars: list[Path]) -> Path:
    """Compile the handler against Spark's Kafka client, into a jar."""
    java = find_java(jdk=True).home / "bin" / "javac"
    path = ":".join(map(str, jars))
    subprocess.run([java, "-cp", path, "-d", classes, *SOURCES.rglob("*.java")], check=True)
    return Path(shutil.make_archive(str(classes), "zip", classes)).rename(classes.with_suffix(".jar"))


@contextmanager
def written(provider: IdentityProvider, path: Path) -> Iterator[None]:
    """Keep a token that holds in the file, as a sidecar does."""
    over = threading.Event()

    def write() -> None:
        while True:
            path.with_suffix(".draft").write_text(provider.token())
            path.with_suffix(".draft").rename(path)
            if over.wait(WRITTEN_S):
                return

    thread = threading.Thread(target=write)
    thread.start()
    yield
    over.set()
    thread.join()


def test_doctor_has_nothing_to_say(own: Site, tmp_path: Path) -> None:
    require_doctor_names_clients(own, tmp_path)


def test_watch_capture_probe_and_ends_work(own: Site, tmp_path: Path) -> None:
    require_local_clients(own, tmp_path)
