"""The terminal view, driven by its keys: groups, filters, one group, and names that want to be markup."""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from textual.widgets import DataTable, Static

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard.top.app import Top
from rebalance_monitor.dashboard.top.cells import ago, duration, plain, spark
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.dashboard.web.api.api import Api
from rebalance_monitor.dashboard.web.http.answers import (
    HttpAnswers,
    LocalAnswers,
    Unanswered,
    all_findings,
    all_groups,
)
from rebalance_monitor.dashboard.web.past.past import MemoryPast
from tests.dashboard.web import known
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot


def answers_of(snapshot: Snapshot) -> LocalAnswers:
    return LocalAnswers(Api(snapshot, MemoryPast(snapshot), live=False), "a test")


def replayed() -> LocalAnswers:
    return answers_of(known.snapshot_of(known.replayed()))


def drive(answers: LocalAnswers, act: Callable[[Top, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        app = Top(answers, every_s=60)
        async with app.run_test(size=(160, 40)) as pilot:
            await settled(app, pilot)
            await act(app, pilot)

    asyncio.run(run())


async def settled(app: Top, pilot: Pilot[None]) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()


def names(app: Top) -> list[str]:
    table = app.query_one("#groups", DataTable)
    return [str(table.get_row_at(number)[1]) for number in range(table.row_count)]


def said(app: Top, where: str) -> str:
    return str(app.screen.query_one(where, Static).render())


def test_the_worst_group_stands_on_top_and_the_head_names_the_storms() -> None:
    async def act(app: Top, _pilot: Pilot[None]) -> None:
        assert len(names(app)) == len(known.replayed().groups)
        assert names(app)[0].startswith("crash-loop")
        assert "storm " + known.STORMY in said(app, "#head")

    drive(replayed(), act)


@pytest.mark.parametrize(
    ("share", "says"),
    [(0.34, "worst offender orders-c1 on 10.0.0.1"), (0.33, "no member is behind a third of the rebalances")],
)
def test_the_worst_offender_of_a_storm_is_behind_a_third_of_it_at_least(share: float, says: str) -> None:
    snapshot = known.small("orders")
    snapshot.apply(
        Update(findings=[known.storm("orders", known.T0, share=share)], now=known.T0, wall=known.T0)
    )

    async def act(app: Top, _pilot: Pilot[None]) -> None:
        assert said(app, "#head").endswith(f"storm orders · {says}")

    drive(answers_of(snapshot), act)


def test_keys_sort_filter_and_search() -> None:
    async def act(app: Top, pilot: Pilot[None]) -> None:
        everything = names(app)
        await pilot.press("t")
        await settled(app, pilot)
        troubled = names(app)
        assert set(troubled) < set(everything)
        await pilot.press("t", "s", "s", "s")
        await settled(app, pilot)
        assert names(app) == sorted(everything)
        await pilot.press("r")
        await settled(app, pilot)
        assert names(app) == sorted(everything, reverse=True)
        await pilot.press("slash", *"storm-free", "escape", "slash", *"sigkill", "enter")
        await settled(app, pilot)
        assert all("sigkill" in name for name in names(app))
        assert "“sigkill”" in said(app, "#status")
        await pilot.press("escape")
        await settled(app, pilot)
        assert len(names(app)) == len(everything)
        await pilot.press("e")
        await settled(app, pilot)
        assert names(app) == []

    drive(replayed(), act)


def test_enter_opens_the_group_with_its_generations_and_escape_goes_back() -> None:
    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *known.STORMY, "enter")
        await settled(app, pilot)
        await pilot.press("enter")
        await settled(app, pilot)
        assert said(app, "#about").startswith(known.STORMY)
        table = app.screen.query_one("#generations", DataTable)
        causes = [str(table.get_row_at(number)[2]) for number in range(table.row_count)]
        assert any(re.search(r"session timeout \d\d%", text) for text in causes), causes
        await pilot.press("escape")
        assert names(app) == [known.STORMY]

    drive(replayed(), act)


def test_hostile_names_are_shown_and_nothing_else() -> None:
    hostile = [*known.HOSTILE, "[red]markup[/red]", "\x1b[2Jcleared"]
    snapshot = Snapshot("lab")
    told = [known.storm(hostile[-1], known.T0)]
    groups = {name: known.summary(name) for name in hostile}
    snapshot.apply(Update(findings=told, groups=groups, now=known.T0, wall=known.T0))

    async def act(app: Top, pilot: Pilot[None]) -> None:
        assert set(names(app)) == {str(plain(name)) for name in hostile}
        assert not any(set("\x1b\x00\n\u202e\u200b") & set(name) for name in names(app))
        await pilot.press("enter")
        await settled(app, pilot)
        assert said(app, "#about").startswith("\\x1b[2Jcleared")

    drive(answers_of(snapshot), act)


def test_the_cursor_stays_with_its_group_when_the_order_changes() -> None:
    snapshot = Snapshot("lab")
    groups = {name: known.summary(name) for name in ("a", "b", "c")}
    snapshot.apply(Update(groups=groups, now=known.T0, wall=known.T0))

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        snapshot.apply(Update(findings=[known.storm("c", known.T0)], now=known.T0, wall=known.T0))
        app.refresh_view()
        await settled(app, pilot)
        assert names(app) == ["c", "a", "b"]
        assert app.query_one("#groups", DataTable).cursor_row == 2

    drive(answers_of(snapshot), act)


def test_a_monitor_that_is_away_is_said_in_the_status_line() -> None:
    class Away:
        where = "http://127.0.0.1:1"

        def ask(self, _path: str, **_values: str | int | None) -> None:
            raise Unanswered(f"no monitor answers at {self.where}", 0)

    async def run() -> None:
        app = Top(Away(), every_s=60)
        async with app.run_test() as pilot:
            await settled(app, pilot)
            assert "no monitor answers" in said(app, "#status")

    asyncio.run(run())


def test_over_http_and_in_process_the_answers_are_the_same() -> None:
    local = replayed()
    with served(known.snapshot_of(known.replayed()), live=False) as client, ExitStack() as stack:
        remote = stack.enter_context(closing(HttpAnswers(str(client.base_url))))
        assert all_groups(remote, 1_000) == all_groups(local, 1_000)
        assert all_findings(remote, 1_000) == all_findings(local, 1_000)
        assert len(all_findings(local, 7, group=known.STORMY)) == 7
        for answers in (local, remote):
            with pytest.raises(Unanswered, match="no group of that name"):
                answers.ask("/group", group="nobody")
            with pytest.raises(Unanswered, match="must be one of"):
                answers.ask("/groups", sort="size")
    nobody = closing(HttpAnswers("http://127.0.0.1:9"))
    with nobody as answers, pytest.raises(Unanswered, match="no monitor answers"):
        answers.ask("/groups")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, "-"), (-5, "0ms"), (999, "999ms"), (61_000, "1m01s"), (90_061_000, "1d01h"), (5_000, "5s")],
)
def test_durations_are_short(ms: int | None, text: str) -> None:
    assert duration(ms) == text
    assert ago(None if ms is None else -ms if ms < 0 else 1_000_000_000 - ms, 1_000_000_000).rstrip() != ""


def test_bars_grow_with_their_counts() -> None:
    assert spark([0, 1, 8]) == " ▁█"
    assert spark([0, 0]) == "  "


@pytest.mark.parametrize("url", ["http://host:abc", "http://[::1"])
def test_what_is_no_address_is_reported_in_one_sentence(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a monitor"):
        HttpAnswers(url)


def test_a_proxy_of_the_environment_does_not_stand_before_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5h://127.0.0.1:1080")
    HttpAnswers("http://127.0.0.1:8377").close()
    with pytest.raises(ConfigError, match="the proxy that the environment names"):
        HttpAnswers("http://monitor.example:8377")
