"""The logins of the docs that test_security.py does not try for every client, by `make chaos`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.clients.test_security import broker, require_doctor, require_local_clients

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.support.secured import SecuredBroker

__all__ = ["broker"]
pytestmark = [
    pytest.mark.chaos,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.mark.parametrize("way", ["jks", "scram256", "plain", "pkcs12"])
def test_every_client_logs_in(broker: SecuredBroker, tmp_path: Path, way: str) -> None:
    require_doctor(broker, tmp_path / "doctor", way)
    require_local_clients(broker, tmp_path / "local", way)
