"""The page in a real browser: incidents live and to their end, time travel, hostile names, 10,000 groups."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.degraded import degraded as degraded_finding
from rebalance_monitor.dashboard.tables.findings_table import write_findings
from rebalance_monitor.dashboard.view.snapshot import Update
from rebalance_monitor.dashboard.web.http.access import Access
from rebalance_monitor.dashboard.web.past.table_past import TablePast
from tests.dashboard.web import known
from tests.dashboard.web.browser import READY_MS, VIEWS, chromium, visiting  # noqa: F401 - fixture `browser`
from tests.dashboard.web.known import small

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

    from rebalance_monitor.coordinator.findings.finding import Finding

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default::ResourceWarning")]
TOKEN = "correct-horse-battery"  # noqa: S105 - of no service
FIRST_PAINT_MS = 1_000


def test_a_storm_appears_on_top_without_a_reload_and_goes_when_it_is_over(browser: Browser) -> None:
    snapshot = small("payments", "orders")
    with visiting(browser, snapshot) as made:
        page = made.go()
        expect(page.locator(".calm-line")).to_contain_text("All quiet: 2 groups")
        page.evaluate("window.same = true")
        page.locator(".filter", has_text="In trouble").focus()
        opened = known.storm("orders", known.T0 + 1_000)
        snapshot.apply(Update(findings=[opened], now=known.T0 + 1_000, wall=known.T0 + 1_000, batch=2))
        card = page.locator(".strip .incident")
        expect(card).to_contain_text("orders")
        expect(card).to_contain_text("worst offender orders-c1 on 10.0.0.1, in 80 % of them")
        expect(page.locator("tbody tr").first).to_contain_text("storm", timeout=READY_MS)
        expect(page.locator(".filter", has_text="In trouble")).to_be_focused()
        expect(page.locator("#incident-count")).to_have_text("1")
        over = known.storm("orders", known.T0 + 2_000, "resolved", opened.id)
        snapshot.apply(Update(findings=[over], now=known.T0 + 2_000, wall=known.T0 + 2_000, batch=3))
        expect(page.locator(".calm-line")).to_be_visible()
        assert page.evaluate("window.same")


def test_a_monitor_that_is_blind_is_not_said_to_have_caught_up(browser: Browser) -> None:
    snapshot, at = small("orders"), known.T0
    blind = {
        phase: degraded_finding(
            "c", Cause.BLIND, "no broker answers", opened_at=at, at=at, phase=phase, details={}
        )
        for phase in ("opened", "resolved")
    }
    with visiting(browser, snapshot) as made:
        monitor = made.go().locator(".stat.monitor .figure")
        expect(monitor).to_contain_text("Caught up")
        snapshot.apply(Update(findings=[blind["opened"]], now=at, wall=at, batch=2))
        expect(monitor).to_contain_text("Blind")
        snapshot.apply(Update(findings=[blind["resolved"]], now=at + 1, wall=at + 1, batch=3))
        expect(monitor).to_contain_text("Caught up")


def test_a_storm_without_a_member_behind_a_third_of_it_names_no_worst_offender(browser: Browser) -> None:
    snapshot, opened = small("orders"), known.storm("orders", known.T0, share=0.33)
    snapshot.apply(Update(findings=[opened], now=known.T0, wall=known.T0, batch=2))
    with visiting(browser, snapshot) as made:
        expect(made.go().locator(".strip .incident")).to_contain_text("no member is behind a third of them")
        page = made.go(f"?incident={opened.id}")
        expect(page.locator(".hero")).to_contain_text("no member is behind a third of them")
        expect(page.locator(".panel", has_text="Who").first).to_contain_text("named as a cause · 10.0.0.1")


def test_an_incident_link_opens_its_page_and_names_the_worst_client(browser: Browser) -> None:
    storm = next(one for one in known.replayed().incidents.open.values() if one.group == known.STORMY)
    with visiting(browser) as made:
        page = made.go(f"?incident={storm.id}")
        expect(page.locator("h1")).to_contain_text(known.STORMY)
        expect(page.locator(".hero")).to_contain_text("critical")
        expect(page.locator(".panel", has_text="Who").first).to_contain_text(f"{known.STORMY}-d")
        why = page.locator(".panel", has_text="Why").first.locator("li").first
        expect(why).to_contain_text(re.compile(r"session timeout.*of \d+ generations.*% sure: no commit"))
        expect(page.locator(".timeline .band")).to_have_count(11)
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".lane-detail")).to_contain_text("Generation 10")
        page.get_by_role("link", name="runbook").click()
        expect(page.locator("h2:target")).to_contain_text("storm")


def test_the_page_of_an_incident_of_no_single_group_follows_it_to_its_end(browser: Browser) -> None:
    def degraded(at: int, phase: str) -> Finding:
        why = "no broker answers" if phase == "opened" else ""
        return degraded_finding("c1", Cause.BLIND, why, opened_at=known.T0, at=at, phase=phase, details={})

    snapshot, opened = small("payments"), degraded(known.T0, "opened")
    snapshot.apply(Update(findings=[opened], now=known.T0, wall=known.T0, batch=2))
    with visiting(browser, snapshot) as made:
        page = made.go(f"?incident={opened.id}")
        expect(page.locator(".hero")).to_contain_text("critical")
        expect(page.locator("main")).not_to_contain_text("resolved")
        over = degraded(known.T0 + 2_000, "resolved")
        snapshot.apply(Update(findings=[over], now=known.T0 + 2_000, wall=known.T0 + 2_000, batch=3))
        expect(page.locator("main")).to_contain_text("resolved")


SHOWN = """
[...document.querySelectorAll("[title], [aria-label], svg title")].flatMap((one) => [
  one.getAttribute("title"), one.getAttribute("aria-label"), one.tagName === "title" && one.textContent,
]).join("\\n")
"""


def test_one_of_anything_is_in_the_singular(browser: Browser) -> None:
    snapshot, opened = small("orders"), known.storm("orders", known.T0)
    snapshot.apply(Update(findings=[opened], now=known.T0, wall=known.T0, batch=2, rows=1))
    with visiting(browser, snapshot) as made:
        for view in ("", "?view=incidents", "?view=findings", "?group=orders", f"?incident={opened.id}"):
            page = made.go(view)
            said = f"{page.locator('body').inner_text()}\n{page.evaluate(SHOWN)}"
            assert re.findall(r"(?<![\d.,/-])1 [a-z]{3,}[^s\W]s\b.*", said) == []
        expect(made.go().locator(".stat").first.locator(".figure")).to_have_text("1group")


@pytest.mark.parametrize("name", known.HOSTILE)
def test_hostile_names_are_inert(browser: Browser, name: str) -> None:
    snapshot = small(name)
    opened = known.storm(name, known.T0)
    snapshot.apply(Update(findings=[opened], now=known.T0, wall=known.T0))
    with visiting(browser, snapshot) as made:
        page = made.go()
        shown = page.locator("tbody .row-link").inner_text()
        assert not re.search("[\u200b\u202e\x00]", shown)
        page.locator("tbody .row-link").click()
        page.wait_for_selector("main[data-view=group]")
        expect(page.locator("h1")).to_have_text(shown)
        for query in ("?view=findings", "?view=incidents", f"?incident={opened.id}"):
            made.go(query)
            assert (
                page.locator("main img, main script, main iframe, main [onerror], main [onload]").count() == 0
            )
        page.wait_for_timeout(100)
        assert "owned" not in page.title().replace("document.title='owned'", "")


def test_no_view_breaks_the_policy_or_needs_another_host(browser: Browser) -> None:
    with visiting(browser) as made:
        asked: list[str] = []
        made.page.on("request", lambda request: asked.append(request.url))
        for query in VIEWS:
            made.go(query)
        assert asked
        assert all(address.startswith(made.url) for address in asked)


def test_time_travel_goes_back_to_the_storm_and_to_now(browser: Browser, tmp_path: Path) -> None:
    told = [finding for view in known.replayed().groups.values() for finding in view.recent]
    write_findings(tmp_path, told, "0b31a4ad", 1)
    opened = next(f.at for f in told if f.kind == "storm" and f.group == known.STORMY)
    with visiting(browser, past=TablePast(tmp_path)) as made:
        page = made.go(f"?at={opened + 1}")
        expect(page.locator("#travel")).to_contain_text("As it was at")
        expect(page.locator(".strip")).to_contain_text(known.STORMY)
        # As the API takes it: a time without a zone is UTC.
        page = made.go(
            "?at=" + datetime.fromtimestamp((opened + 1) / 1000, UTC).isoformat(timespec="milliseconds")[:23]
        )
        expect(page.locator("#travel b")).to_have_text(re.compile(r"^\d{4}-"))
        expect(page.locator(".strip")).to_contain_text(known.STORMY)
        page.locator("tbody .row-link", has_text=known.STORMY).click()
        page.wait_for_selector("main[data-view=group]")
        expect(page.locator(".chips").first).to_contain_text("3 members")
        page.get_by_role("button", name="\u2212 1 h").click()
        expect(page.locator("h1")).to_have_text("Not found")
        made.complaints.clear()
        page.get_by_role("button", name="Back to now").click()
        expect(page.locator("#travel")).to_be_hidden()


def test_a_token_is_asked_for_and_kept_in_the_tab(browser: Browser) -> None:
    with visiting(browser, small("payments"), access=Access(token=TOKEN), complaints=False) as made:
        page = made.page
        page.goto(made.url)
        page.locator("#token").fill(TOKEN)
        page.locator("#token").press("Enter")
        expect(page.locator("tbody")).to_contain_text("payments")
        page.reload()
        expect(page.locator("tbody")).to_contain_text("payments")
        expect(page.locator("#live-text")).not_to_have_text("offline")


def test_ten_thousand_groups_are_painted_within_a_second(browser: Browser) -> None:
    with visiting(browser, known.snapshot_of(known.crowd(10_000))) as made:
        made.go()  # the first visitor's board is made here; the monitor makes one with every batch
        asked: list[str] = []
        made.page.on("request", lambda request: asked.append(request.url.partition("/api/v1/")[2]))
        page = made.go()
        painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        assert painted < FIRST_PAINT_MS
        expect(page.locator("tbody tr")).to_have_count(100)
        expect(page.locator(".pager").first).to_contain_text("1\u2013100 of 10,000")
        # The rows came within the page.
        assert not [path for path in asked if path.startswith(("groups", "cluster"))]
        page.keyboard.press("ArrowRight")
        expect(page.locator(".pager").first).to_contain_text("101\u2013200 of 10,000")
