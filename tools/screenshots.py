"""Takes the screenshots of docs/page.md: a real capture, replayed into the middle of its storms, in Chromium.

    python tools/screenshots.py [--folder docs/screenshots]

The capture is one of the lab's (tests/fixtures/scenarios): real brokers, clients and faults. Pictures are
written only where they are small enough to be kept in the repository.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from playwright.sync_api import sync_playwright

from rebalance_monitor.cli.feeding import Feed
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.snapshot import Snapshot
from rebalance_monitor.dashboard.web.access import Access
from rebalance_monitor.dashboard.web.api import Api
from rebalance_monitor.dashboard.web.app import make_app
from rebalance_monitor.dashboard.web.past import MemoryPast
from rebalance_monitor.dashboard.web.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
CAPTURE = ROOT / "tests" / "fixtures" / "scenarios" / "python-3.9.1" / "capture"
# Both crash loops of the capture storm, and most groups still have their members.
STORMING = 1_795_231_545_000
GROUP = "crash-loop.confluent"


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: the page's query (`{storm}` is an incident), size in pixels, and colours."""

    name: str
    query: str
    width: int
    height: int
    scheme: Literal["dark", "light"]


SHOTS = (
    Shot("cluster", "", 1360, 900, "dark"),
    Shot("cluster-light", "", 1360, 900, "light"),
    Shot("group", f"?group={GROUP}", 1360, 1180, "dark"),
    Shot("incident", "?incident={storm}", 1360, 900, "light"),
    Shot("narrow", "", 390, 844, "dark"),
)
MAX_BYTES = 300_000


def main() -> int:
    """Write the pictures; exit code 1 if one is too large, 3 without Chromium."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "screenshots")
    folder: Path = parser.parse_args().folder
    path = shutil.which("chromium")
    if path is None:
        print("there is no Chromium here: make deps-ci installs it", file=sys.stderr)
        return 3
    folder.mkdir(parents=True, exist_ok=True)
    snapshot = Snapshot("kafka-lab")
    Feed(snapshot).run(CAPTURE, DetectionSettings(), STORMING)
    app, stream = make_app(Api(snapshot, MemoryPast(snapshot), live=False), Access())
    opened = snapshot.known.incidents.open.values()
    storm = next(one.id for one in opened if one.kind == "storm" and one.group == GROUP)
    with Server(app, stream, "127.0.0.1", 0) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        sizes = [_shoot(browser, server.url, storm, folder, shot) for shot in SHOTS]
        browser.close()
    return int(max(sizes) > MAX_BYTES)


def _shoot(browser: Browser, url: str, storm: str, folder: Path, shot: Shot) -> int:
    page = browser.new_page(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme=shot.scheme,
        reduced_motion="reduce",
        timezone_id="UTC",
    )
    page.goto(f"{url}/{shot.query.format(storm=storm)}")
    page.wait_for_selector("main[data-view]")
    page.wait_for_timeout(500)
    path = folder / f"{shot.name}.png"
    page.screenshot(path=path)
    page.close()
    size = path.stat().st_size
    print(f"{path.name}: {size // 1000} kB")
    return size


if __name__ == "__main__":
    sys.exit(main())
