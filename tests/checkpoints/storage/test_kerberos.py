"""HDFS behind Kerberos by the JVM that a verb starts: its keytab, its tickets, and what may be wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.storage.files import locked, replace_file
from rebalance_monitor.checkpoints.storage.places import place_at
from rebalance_monitor.cluster.errors import AccessDeniedError
from tests.chaos.support.clock import Clock
from tests.cluster.support.kdc import PRINCIPAL, Kdc, missing_programs
from tests.deploy.minicluster import MiniCluster, our_jvm

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


def test_files_are_written_while_tickets_expire(realm: tuple[Kdc, MiniCluster]) -> None:
    kdc, hadoop = realm
    with our_jvm(hadoop, kdc, "monitor.keytab"):
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
    with our_jvm(hadoop, kdc, keytab, principal), pytest.raises(AccessDeniedError, match=sentence):
        place_at(f"{hadoop.file_system}/user/monitor/job")
