"""Until the monitor has caught up its page says so: no counts, old data as of its moment, no all-clear."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from tests.dashboard.web import known
from tests.dashboard.web.browser import READY_MS, chromium, visiting  # noqa: F401 - fixture `browser`

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default::ResourceWarning")]
FILTER = "(one) => getComputedStyle(one).filter"


def batch(number: int, now: int, *, catching_up: bool) -> Update:
    shards = [known.shard(catching_up=catching_up), {**known.shard(), "shard": 1}]
    return Update(groups={"orders": known.summary("orders")}, shards=shards, now=now, wall=now, batch=number)


def test_a_page_that_knows_nothing_says_so_and_fills_by_itself(browser: Browser) -> None:
    snapshot = Snapshot("lab")
    snapshot.measured(stages={}, lag_records=62_712)
    with visiting(browser, snapshot) as made:
        page, phase = made.page, made.page.locator("#phase")
        page.goto(made.url)
        expect(phase).to_contain_text(
            "Starting: nothing has been read yet. Still to be read: 62,712 records of history"
        )
        expect(page.locator("#main")).to_be_hidden()
        expect(page.locator("#live-text")).to_have_text("starting")
        snapshot.apply(batch(1, known.T0, catching_up=True))
        expect(phase).to_contain_text(
            "what is shown is not complete yet. Read so far: 1 of 2 partitions", timeout=READY_MS
        )
        expect(page.locator("#main")).to_be_visible()
        expect(page.locator(".calm-line")).to_be_hidden()
        snapshot.apply(batch(2, known.T0 + 1_000, catching_up=False))
        expect(phase).to_be_hidden()
        expect(page.locator(".calm-line")).to_contain_text("All quiet: 1 group")


def test_what_an_earlier_process_kept_is_grey_and_as_of_its_moment(browser: Browser) -> None:
    snapshot, kept = Snapshot("lab"), known.replayed()
    moment = kept.health.now
    snapshot.restore(replace(kept, kept_at=moment))
    with visiting(browser, snapshot) as made:
        page, phase = made.go(), made.page.locator("#phase")
        expect(phase).to_contain_text("As of 20")
        expect(phase).to_contain_text("the monitor was started again and is reading")
        assert page.locator("#main").evaluate(FILTER) == "grayscale(1)"
        assert page.locator("#incident-count").evaluate(FILTER) == "grayscale(1)"
        # No time goes on: a storm that was open has lasted as long as it had when that was kept.
        assert " d " not in page.locator(".strip [data-since]").first.inner_text()
        snapshot.apply(batch(1, moment + 1_000, catching_up=False))
        expect(phase).to_be_hidden(timeout=READY_MS)
        assert page.locator("#main").evaluate(FILTER) == "none"
