"""What a reader chooses on the page stands in the address: filters, columns and the time zone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pytest
from playwright.sync_api import expect

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.measured import Totals
from rebalance_monitor.dashboard.view.snapshot import Update
from rebalance_monitor.dashboard.web.api.alerting import NoAlerting
from tests.dashboard.support.lags import lag
from tests.dashboard.web import known
from tests.dashboard.web.browser import READY_MS, chromium, visiting  # noqa: F401 - the fixture `browser`

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from rebalance_monitor.coordinator.lag.measured import GroupLag

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default::ResourceWarning")]


class Teams(NoAlerting):
    """The owners of the capture's groups."""

    teams: ClassVar = {"crash-*": "crashes", "healthy*": "fine"}


def growing(until: int, records: int = 600, samples: int = 60) -> GroupLag:
    """Return a lag that has grown with each of the samples until then."""
    totals = Totals()
    for number in range(samples):
        totals.add(until - 5_000 * (samples - 1 - number), records * (number + 1) // samples)
    return replace(lag(orders=records), totals=totals)


def shown(page: Page) -> list[str]:
    return [text.rstrip("▾▴") for text in page.locator("thead th").all_inner_texts()]


def test_filters_and_columns_are_chosen_by_keyboard_and_stand_in_the_address(browser: Browser) -> None:
    with visiting(browser, alerting=Teams()) as made:
        page = made.go()
        page.keyboard.press("f")
        dialog = page.locator("#filters")
        dialog.get_by_role("combobox", name="Severity").select_option("warning")
        dialog.get_by_role("combobox", name="Team").select_option("crashes")
        for name in ("Gen", "Rebalanced"):
            dialog.get_by_role("checkbox", name=name).focus()
            page.keyboard.press("Space")
        dialog.get_by_role("button", name="Apply").focus()
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody")).to_contain_text("crash-loop.kafka-python")
        assert re.search(r"severity=warning&.*team=crashes", page.url)
        assert shown(page) == [
            "Trouble",
            "Group",
            "State",
            "Members",
            "Lag",
            "Last hour",
            "Last cause",
            "Team",
        ]
        # Whoever gets the address sees the same, in another browser.
        address = page.url
        page.evaluate("localStorage.clear()")
        page.goto(address)
        expect(page.locator("tbody tr")).to_have_count(1)
        assert "Gen" not in shown(page)
        page.locator(".filter", has_text="severity: warning").click()
        expect(page.locator("tbody tr")).to_have_count(3)
        assert "Gen" not in shown(page)
        page.locator("tbody .row-link").first.click()
        page.wait_for_selector("main[data-view=group]")
        expect(page.locator(".chips").first).to_contain_text("team crashes")


def test_incidents_and_history_have_the_same_filters(browser: Browser) -> None:
    with visiting(browser, alerting=Teams()) as made:
        page = made.go("?view=incidents")
        page.keyboard.press("f")
        page.locator("#filters").get_by_label("Kind").select_option("storm")
        page.locator("#filters").get_by_role("button", name="Apply").click()
        page.wait_for_selector("main .filter[aria-current]")
        assert set(page.locator(".incident .label").all_inner_texts()) == {"Storm"}
        page = made.go("?view=findings")
        page.get_by_label("Cause").select_option("session_timeout")
        page.get_by_label("Team").select_option("crashes")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url(re.compile("cause=session_timeout.*team=crashes"))
        lines = page.locator(".feed.wide > .line")
        expect(lines.first).to_contain_text("session timeout")
        assert all("crash-" in text for text in lines.all_inner_texts())
        # A departure and its rebalance are one row, which opens to both.
        row = lines.filter(has_text="→ rebalance").first
        row.locator("summary").last.click()
        expect(row.locator(".fields").first).to_be_visible()


def test_times_are_in_utc_or_in_the_browsers_zone_as_the_address_says(browser: Browser) -> None:
    with visiting(browser) as made:
        page = made.go(f"?group={known.STORMY}")
        here = page.locator("#generations time, #generations td.num[title]").first
        utc = (here.get_attribute("title") or "")[11:19]
        page.goto(f"{made.url}/?group={known.STORMY}&tz=utc")
        expect(here).to_have_text(utc)
        expect(page.locator("#zone")).to_have_text("UTC")
        page.keyboard.press("z")
        page.wait_for_url(re.compile("tz=browser"))
        page.keyboard.press("z")
        page.wait_for_url(re.compile("tz=utc"))
        expect(here).to_have_text(utc)
        page.keyboard.press("g")
        page.wait_for_selector("main[data-view=cluster]")
        expect(page.locator(".latest time").first).to_be_visible()
        assert page.locator(".latest time").first.inner_text() in (
            page.locator(".latest time").first.get_attribute("title") or ""
        )
        page.keyboard.press("t")
        expect(page.locator(".zone-name")).to_have_text("UTC")


def test_lag_is_drawn_over_time_with_the_rebalances_in_it(browser: Browser) -> None:
    snapshot = known.small("payments", "orders")
    cost = {"joined": 1, "waiting_peak": 1_234, "partition_seconds": 180.0}
    told = known.rebalance("orders", 4, known.T0 - 30_000, started_at_min=known.T0 - 60_000, details=cost)
    price = {"rebalance": told.id, "rebalances": 1, "arrived": 1_100, "waiting_peak": 1_234}
    price |= {"caught_up_ms": 12_000}
    paid = replace(told, id="paid", kind=Kind.REBALANCE_COST, details=price)
    snapshot.apply(
        Update(
            findings=[told, paid], now=known.T0, wall=known.T0, batch=2, lags={"orders": growing(known.T0)}
        )
    )
    with visiting(browser, snapshot) as made:
        page = made.go("?sort=lag")
        expect(page.locator("tbody tr").first).to_contain_text("orders")
        expect(page.locator("tbody tr").first.locator(".spark path")).to_have_count(1)
        expect(page.locator("tbody tr").nth(1).locator(".spark")).to_have_count(0)
        page = made.go("?group=orders")
        track = page.locator(".lag-track")
        expect(track).to_have_attribute(
            "aria-label", re.compile("600 records now, 600 at most, 2 rebalances")
        )
        expect(track.locator(".stop")).to_have_count(2)
        width = track.locator(".stop rect").last.evaluate(
            "(one) => one.getBBox().width / one.ownerSVGElement.viewBox.baseVal.width"
        )
        assert width == pytest.approx(30 / 295, abs=0.02)
        expect(page.locator(".lane-detail")).to_contain_text("1,234")
        row = page.locator("#generations tbody tr").first
        expect(row).to_contain_text("1,234 records waited, caught up in 12 s")
        expect(row.locator("[title='1,100 records arrived while partitions stood still']")).to_have_count(1)
        expect(page.locator(".feed")).to_contain_text("1,234 records waited")
        expect(page.locator("#lag tbody tr")).to_have_count(2)
        more = {"orders": growing(known.T0 + 5_000, 900)}
        snapshot.apply(
            Update(
                groups={"orders": known.summary("orders")},
                now=known.T0 + 5_000,
                wall=known.T0 + 5_000,
                batch=3,
                lags=more,
            )
        )
        expect(track).to_have_attribute("aria-label", re.compile("900 records now"), timeout=READY_MS)
