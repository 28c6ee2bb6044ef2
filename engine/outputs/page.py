"""The live page of a running job: the web server over the job's snapshot, tables and metrics.

A port in use is a warning in the log and does not stop the monitor: findings and alerts need no page.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.dashboard.view.snapshot import Snapshot
    from rebalance_monitor.dashboard.web.http.server import Server
    from rebalance_monitor.engine.storage import Storage

log = structlog.get_logger()


def page_of(
    settings: Settings,
    storage: Storage,
    snapshot: Snapshot,
    registry: CollectorRegistry,
    held_up: Callable[[], str] = str,
) -> Callable[[], Server | None]:
    """Return what takes the port and gives the server, None where there is none. Raises ConfigError."""
    web = settings.web
    if not web.enabled:
        return lambda: None
    # A web server is slow to import: a process without a page, such as `watch`, does not wait for it.
    from rebalance_monitor.dashboard.metrics.collector import exposition  # noqa: PLC0415
    from rebalance_monitor.dashboard.web.api.api import Api  # noqa: PLC0415
    from rebalance_monitor.dashboard.web.http.access import access_of  # noqa: PLC0415
    from rebalance_monitor.dashboard.web.http.app import make_app  # noqa: PLC0415
    from rebalance_monitor.dashboard.web.http.server import Server  # noqa: PLC0415
    from rebalance_monitor.dashboard.web.past.past import MemoryPast  # noqa: PLC0415
    from rebalance_monitor.dashboard.web.past.table_past import TablePast  # noqa: PLC0415
    from rebalance_monitor.engine.outputs.page_alerting import PageAlerting  # noqa: PLC0415

    access = access_of(web)
    past = TablePast(storage.findings) if settings.outputs.parquet else MemoryPast(snapshot)
    api = Api(snapshot, past, alerting=PageAlerting(settings, storage))
    app, stream = make_app(api, access, partial(exposition, registry), held_up)

    def take_port() -> Server | None:
        try:
            server = Server(app, stream, web.host, web.port)
        except (OSError, UnicodeError) as error:
            # A host name that cannot be one is a UnicodeError.
            remedy = "set web.host and web.port; with port 0 any free one is taken"
            log.warning("the page is not served", host=web.host, port=web.port, why=str(error), remedy=remedy)
            return None
        log.info("the page is served", url=web.url or server.url)
        return server

    return take_port
