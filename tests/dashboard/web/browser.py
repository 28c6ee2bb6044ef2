"""A real Chromium (Debian's package) for tests, and what it complained about."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.dashboard.web import known
from tests.dashboard.web.serving import served
from tests.programs import installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Error, Page, Playwright

    from rebalance_monitor.dashboard.view.snapshot import Snapshot
    from rebalance_monitor.dashboard.web.api.alerting import Alerting
    from rebalance_monitor.dashboard.web.http.access import Access
    from rebalance_monitor.dashboard.web.past.past import Past

VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (one) =>
  window.violations.push(`${one.violatedDirective} ${one.blockedURI}`));
"""
READY_MS = 60_000
VIEWS = ("", "?view=incidents", "?view=findings", f"?group={known.STORMY}")


def launch(driver: Playwright) -> Browser:
    """Start the browser, or skip the test saying what is missing."""
    # What a busy machine shows late is shown.
    expect.set_options(timeout=READY_MS)
    path = installed("chromium", "chromium-browser")
    # Tests may run as root, for whom Chromium has no sandbox.
    return driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])


@pytest.fixture(scope="module", name="browser")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        started = launch(driver)
        yield started
        started.close()


@dataclass
class Visit:
    """One page, with every error, dialog and refusal that it caused."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def go(self, query: str = "") -> Page:
        """Open an address of the page and wait until its view stands."""
        self.page.goto(f"{self.url}/{query}")
        self.page.wait_for_selector("main[data-view] > *", timeout=READY_MS)
        return self.page

    def all_complaints(self) -> list[str]:
        """Return everything that went wrong so far."""
        return self.complaints + list(self.page.evaluate("window.violations"))


def visit(
    browser: Browser, url: str, *, width: int = 1400, scheme: str = "dark"
) -> tuple[BrowserContext, Visit]:
    """Return a fresh context with one page on it."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]  # dark or light
    )
    context.add_init_script(VIOLATIONS)
    page = context.new_page()
    made = Visit(page, url)

    def console(message: ConsoleMessage) -> None:
        if message.type == "error":
            made.complaints.append(message.text)

    def error(problem: Error) -> None:
        made.complaints.append(str(problem))

    def dialog(box: Dialog) -> None:
        made.complaints.append(f"dialog: {box.message}")
        box.dismiss()

    page.on("console", console)
    page.on("pageerror", error)
    page.on("dialog", dialog)
    return context, made


@contextmanager
def visiting(
    browser: Browser,
    snapshot: Snapshot | None = None,
    past: Past | None = None,
    *,
    width: int = 1400,
    scheme: str = "dark",
    access: Access | None = None,
    complaints: bool = True,
    alerting: Alerting | None = None,
) -> Iterator[Visit]:
    """Open the page over `snapshot` (a replay by default); nothing may be complained of."""
    live = snapshot is not None
    shown = snapshot or known.snapshot_of(known.replayed())
    with served(shown, past, live=live, access=access, alerting=alerting) as client:
        context, made = visit(browser, str(client.base_url).rstrip("/"), width=width, scheme=scheme)
        yield made
        if complaints:
            assert made.all_complaints() == []
        context.close()
