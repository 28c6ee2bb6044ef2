"""HDFS behind Kerberos by the JVM that a verb starts: its keytab, its tickets, and what may be wrong."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.storage.files import locked, replace_file
from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm
from rebalance_monitor.checkpoints.storage.places import place_at
from rebalance_monitor.cluster.errors import AccessDeniedError
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
from rebalance_monitor.config.load import load
from tests.chaos.support.clock import Clock
from tests.cluster.support.kdc import PRINCIPAL, Kdc, missing_programs
from tests.deploy.minicluster import MiniCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TICKET_S = 10


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kdc, MiniCluster]]:
    if missing := missing_programs():
        pytest.skip(f"{', '.join(missing)} not installed (make deps-ci)")
    folder = tmp_path_factory.mktemp("realm")
    (folder / "hadoop").mkdir()
    with (
        Kdc(folder / "kdc", f"{TICKET_S}s", Clock(folder)) as kdc,
        MiniCluster(folder / "hadoop", nodes=0, kdc=kdc) as hadoop,
    ):
        yield kdc, hadoop


@contextmanager
def our_jvm(kdc: Kdc, hadoop: MiniCluster, keytab: str, principal: str = PRINCIPAL) -> Iterator[None]:
    """What the verbs do before they open a storage."""
    given = {
        "spark.kerberos.keytab": str(kdc.folder / keytab),
        "spark.kerberos.principal": principal,
        "spark.driver.extraJavaOptions": f"-Djava.security.krb5.conf={kdc.config}",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(hadoop.conf))
        SHARED_JVM.configure(load(flags={"spark": given}), lambda: None)
        use_jvm(SHARED_JVM.for_files)
        try:
            yield
        finally:
            use_jvm(lambda _: None)
            SHARED_JVM.close()


def test_files_are_written_while_tickets_expire(realm: tuple[Kdc, MiniCluster]) -> None:
    kdc, hadoop = realm
    with our_jvm(kdc, hadoop, "monitor.keytab"):
        folder = place_at(f"{hadoop.file_system}/user/monitor/job")
        until = time.monotonic() + 2.2 * TICKET_S
        with locked(folder):
            while time.monotonic() < until:
                replace_file(folder / "ledger", (content := str(time.monotonic()).encode()))
                assert (folder / "ledger").read_bytes() == content
                time.sleep(1)


@pytest.mark.parametrize(
    ("wrong", "keytab", "principal", "sentence"),
    [
        ("gone", "nobody.keytab", "nobody@LAB.TEST", r"knows no principal nobody@LAB.TEST\.\nCorrect `spark"),
        ("old", "other.keytab", "other@LAB.TEST", "The key in the keytab is not the key of other@LAB.TEST"),
        ("missing", "no.keytab", PRINCIPAL, r"no.keytab cannot be read.*\nCorrect `spark.kerberos.keytab`"),
    ],
)
def test_what_is_wrong_with_the_keytab_is_named(
    realm: tuple[Kdc, MiniCluster], wrong: str, keytab: str, principal: str, sentence: str
) -> None:
    kdc, hadoop = realm
    if wrong != "missing":
        kdc.add(principal, keytab)
    if wrong == "gone":
        kdc.remove(principal)
    elif wrong == "old":
        kdc.new_key(principal)
    with our_jvm(kdc, hadoop, keytab, principal), pytest.raises(AccessDeniedError, match=sentence):
        place_at(f"{hadoop.file_system}/user/monitor/job")
