"""A real server for tests: the page over a snapshot, on a free port of this machine."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from rebalance_monitor.dashboard.web.api.api import Api
from rebalance_monitor.dashboard.web.http.access import Access
from rebalance_monitor.dashboard.web.http.app import make_app
from rebalance_monitor.dashboard.web.http.server import Server
from rebalance_monitor.dashboard.web.past.past import MemoryPast
from tests.dashboard.web.known import T0

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rebalance_monitor.dashboard.view.snapshot import Snapshot
    from rebalance_monitor.dashboard.web.api.alerting import Alerting
    from rebalance_monitor.dashboard.web.past.past import Past


@contextmanager
def served(
    snapshot: Snapshot,
    past: Past | None = None,
    *,
    live: bool = True,
    access: Access | None = None,
    port: int = 0,
    held_up: Callable[[], str] = str,
    alerting: Alerting | None = None,
) -> Iterator[httpx.Client]:
    """Serve `snapshot`; the client's `base_url` is where."""
    past = past or MemoryPast(snapshot)
    api = Api(snapshot, past, live=live, wall_ms=lambda: T0 + 1_000, alerting=alerting)
    app, stream = make_app(
        api,
        access or Access(),
        lambda _accept, _only: (b"# EOF\n", "application/openmetrics-text"),
        held_up,
    )
    with (
        Server(app, stream, "127.0.0.1", port) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        yield client
