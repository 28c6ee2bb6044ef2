"""Takes the screenshots of docs/page.md in Chromium: of the demo, in the middle of its storm.

    python tools/screenshots.py [--folder docs/screenshots] [--capture]

Runs what `rebalance-monitor demo` runs (a broker, consumers at fault, the streaming job) and takes pictures
of its live page. With --capture a capture of the lab is replayed instead: no broker, no Spark, more groups.
States that pass (nothing read yet, what an earlier process kept) and dialogs are always of the capture.
Exit code 1 if a picture is too large to be kept in the repository, 3 without Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import httpx
from playwright.sync_api import sync_playwright

from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.view.snapshot import Snapshot
from rebalance_monitor.dashboard.web.api.api import Api
from rebalance_monitor.dashboard.web.http.access import Access
from rebalance_monitor.dashboard.web.http.app import make_app
from rebalance_monitor.dashboard.web.http.server import Server
from rebalance_monitor.dashboard.web.past.past import MemoryPast
from rebalance_monitor.engine.outputs.page_alerting import PageAlerting
from rebalance_monitor.engine.replay.feeding import Feed
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports
from rebalance_monitor.lab.suite.demo import stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from rebalance_monitor.dashboard.web.api.alerting import Alerting

ROOT = Path(__file__).resolve().parent.parent
CAPTURE = ROOT / "tests" / "fixtures" / "scenarios" / "python-3.9.1" / "capture"
# Both crash loops of the capture storm, and most groups still have their members.
STORMING = 1_795_231_545_000
CAPTURED, PLAYED = "crash-loop.confluent", "crash-loop-fast"
KAFKA = "4.1.1"
PATIENCE_S = 180.0


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: the page's query (`{storm}` is an incident of `{group}`), size in pixels, and colours.

    key: what is pressed to open the dialog that is taken alone.
    """

    name: str
    query: str
    width: int
    height: int
    scheme: Literal["dark", "light"]
    key: str = ""


SHOTS = (
    Shot("cluster", "", 1360, 900, "dark"),
    Shot("cluster-light", "", 1360, 900, "light"),
    Shot("group", "?group={group}", 1360, 1180, "dark"),
    Shot("incident", "?incident={storm}", 1360, 1000, "light"),
    Shot("narrow", "", 390, 844, "dark"),
    Shot("narrow-incident", "?incident={storm}", 390, 844, "dark"),
)
STARTING = Shot("starting", "", 900, 260, "light")
KEPT = Shot("as-of", "", 900, 560, "light")
DIALOGS = (
    Shot("filters", "", 900, 860, "light", "f"),
    Shot("history", "?view=findings", 900, 560, "light"),
    Shot("silence", "?incident={storm}", 900, 620, "light", "s"),
)
TOKEN = "token-of-the-pictures"  # noqa: S105 - of no service
UNREAD = 62_712
MAX_BYTES = 300_000


@dataclass(frozen=True, slots=True)
class Scene:
    """A page with a storm on it."""

    url: str
    group: str
    storm: str


def main() -> int:
    """Write the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "screenshots")
    parser.add_argument("--capture", action="store_true", help="replay a capture instead of the demo")
    given = parser.parse_args()
    path = shutil.which("chromium")
    if path is None:
        print("there is no Chromium here: make deps-ci installs it", file=sys.stderr)
        return 3
    given.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with replayed() if given.capture else played() as scene:
            sizes = [_shoot(browser, scene, given.folder, shot) for shot in SHOTS]
        sizes += states(browser, given.folder)
        browser.close()
    return int(max(sizes) > MAX_BYTES)


def storming() -> Snapshot:
    """Return a capture that was replayed into the middle of its storms."""
    snapshot = Snapshot("kafka-lab")
    Feed(snapshot).run(CAPTURE, DetectionSettings(), STORMING)
    return snapshot


@contextmanager
def replayed() -> Iterator[Scene]:
    """Serve that capture."""
    with serving(storming(), live=False) as scene:
        yield scene


@contextmanager
def serving(
    snapshot: Snapshot, *, live: bool, access: Access | None = None, alerting: Alerting | None = None
) -> Iterator[Scene]:
    """Serve a snapshot."""
    api = Api(snapshot, MemoryPast(snapshot), live=live, alerting=alerting)
    app, stream = make_app(api, access or Access())
    storms = [one.id for one in snapshot.known.incidents.open.values() if one.group == CAPTURED]
    with Server(app, stream, "127.0.0.1", 0) as server:
        yield Scene(server.url, CAPTURED, storms[0] if storms else "")


def states(browser: Browser, folder: Path) -> list[int]:
    """Take the states that pass, and the dialogs."""
    kept, empty, again = storming(), Snapshot("kafka-lab"), Snapshot("kafka-lab")
    empty.measured(stages={}, lag_records=UNREAD)
    again.restore(replace(kept.known, kept_at=kept.known.health.now))
    with serving(empty, live=True) as scene:
        sizes = [_shoot(browser, scene, folder, STARTING)]
    with serving(again, live=True) as scene:
        sizes.append(_shoot(browser, scene, folder, KEPT))
    receivers = [{"name": "sre", "slack": {"token": "xoxb-none", "channel": "C0123ABCD"}}]
    alerts = {"receivers": receivers, "route": {"receiver": "sre"}}
    detection = {"groups": [{"pattern": "crash-*", "team": "payments"}]}
    settings = Settings.model_validate({"alerts": alerts, "detection": detection, "web": {"token": TOKEN}})
    with tempfile.TemporaryDirectory() as home:
        alerting = PageAlerting(settings, Storage(Path(home)))
        with serving(kept, live=False, access=Access(token=TOKEN), alerting=alerting) as scene:
            sizes += [_shoot(browser, scene, folder, shot) for shot in DIALOGS]
    return sizes


@contextmanager
def played() -> Iterator[Scene]:
    """Run the demo until its storm is on."""
    os.environ["REBALANCE_MONITOR_WEB__PORT"] = str(free_ports(1)[0])
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rebalance-monitor-")))
        broker = stack.enter_context(LabBroker(KAFKA, home / "broker", initial_delay_ms=3_000))
        play = stage(broker, home, stack)
        url = play.job.page() or ""
        deadline = time.monotonic() + PATIENCE_S
        while not (storms := _open_storms(url)):
            play.news()
            if time.monotonic() > deadline:
                raise SystemExit("the demo's storm did not come")
            time.sleep(0.5)
        yield Scene(url, PLAYED, storms[0])


def _open_storms(url: str) -> list[str]:
    answer = httpx.get(f"{url}/api/v1/incidents", params={"kind": "storm", "state": "open"}, timeout=20)
    return [row["id"] for row in answer.raise_for_status().json()["rows"] if row["group"] == PLAYED]


def _shoot(browser: Browser, scene: Scene, folder: Path, shot: Shot) -> int:
    page = browser.new_page(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme=shot.scheme,
        reduced_motion="reduce",
        timezone_id="UTC",
    )
    page.add_init_script(f"sessionStorage.setItem('rebalance-monitor-token', '{TOKEN}')")
    page.goto(f"{scene.url}/{shot.query.format(group=scene.group, storm=scene.storm)}")
    page.wait_for_selector("main[data-view]", state="attached")
    page.wait_for_timeout(700)
    if shot.key:
        page.keyboard.press(shot.key)
        page.wait_for_selector("dialog[open]")
        page.wait_for_timeout(300)
    path = folder / f"{shot.name}.png"
    shown = page.locator("dialog[open]") if shot.key else page
    shown.screenshot(path=path)
    page.close()
    size = path.stat().st_size
    print(f"{path.name}: {size // 1000} kB")
    return size


if __name__ == "__main__":
    sys.exit(main())
