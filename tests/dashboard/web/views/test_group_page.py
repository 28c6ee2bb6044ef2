"""A group's page in a real browser: its generations, members, marks, causes and deadlines, as they come."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from tests.dashboard.web import known
from tests.dashboard.web.browser import chromium, visiting  # noqa: F401 - the fixture `browser`
from tests.dashboard.web.known import small

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default::ResourceWarning")]


def test_a_new_generation_is_shown_in_its_row_and_on_the_group_page(browser: Browser) -> None:
    snapshot = small("payments", "orders")
    with visiting(browser, snapshot) as made:
        page = made.go()
        row = page.locator("tbody tr", has_text="payments")
        expect(row.locator(".c-generation")).to_have_text("3")
        _rebalance(snapshot, 4)
        expect(row.locator(".c-generation")).to_have_text("4")
        page.goto(f"{made.url}/?group=payments")
        expect(page.locator(".band")).to_have_count(2)
        _rebalance(snapshot, 5)
        expect(page.locator(".band")).to_have_count(3)
        expect(page.locator("#generations tbody tr").first).to_contain_text("member joined")


def _rebalance(snapshot: Snapshot, generation: int) -> None:
    at = known.T0 + 10_000 * generation
    found = known.rebalance("payments", generation, at)
    snapshot.apply(
        Update(
            findings=[found],
            groups={"payments": known.summary("payments", generation, at=at)},
            now=at,
            wall=at,
        )
    )


def test_the_timeline_has_generations_members_marks_and_causes(browser: Browser) -> None:
    with visiting(browser) as made:
        page = made.go(f"?group={known.STORMY}")
        expect(page.locator(".lanes .band")).to_have_count(11)
        expect(page.locator(".lane")).to_have_count(3)
        assert page.locator(".node.joined").count() >= 5
        assert page.locator(".breach").count() >= 3
        # A cause and its confidence on hover, and in the table below.
        page.locator(".band").nth(6).hover()
        detail = page.locator(".lane-detail")
        expect(detail).to_contain_text("Generation 7")
        expect(detail).to_contain_text(re.compile(r"session timeout\s*\d\d %"))
        expect(detail).to_contain_text("no commit for 7.3 s")
        told = re.compile(r"session timeout \d\d %\s*crash-loop")
        expect(page.locator("#generations")).to_contain_text(told)


def test_members_spread_and_deadlines_count_down(browser: Browser) -> None:
    snapshot = small("payments")
    listed = [known.member("payments", 0), known.member("payments", 1, deadline=known.T0 + 30_000)]
    summary = known.summary("payments", 3, member_list=listed)
    snapshot.apply(Update(groups={"payments": summary}, now=known.T0, wall=known.T0))
    with visiting(browser, snapshot) as made:
        page = made.go("?group=payments")
        expect(page.locator(".deadlines li")).to_contain_text("Session of payments-c1")
        first = page.locator(".deadlines li b").inner_text()
        expect(page.locator(".deadlines li b")).not_to_have_text(first)
        expect(page.locator(".spread").first).to_contain_text("payments.orders 0-2")
