"""Slack's sink when answers get lost, parents die and the ledger forgets: still one thread."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.sinks.http import Net
from rebalance_monitor.alerts.sinks.slack import SlackSink
from tests.alerts.sinks.notes import NOW, note
from tests.alerts.support.fakes import Answer
from tests.alerts.support.slack_fake import CHANNEL, TOKEN, Flaky, SlackFake, said_no

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.alerts.messages.notification import Notification

NET = Net(timeout_s=5)


@pytest.fixture
def fake() -> Iterator[SlackFake]:
    with SlackFake() as running:
        yield running
        assert running.refused == []


@pytest.fixture
def sink(fake: SlackFake) -> SlackSink:
    return SlackSink("team", SecretStr(TOKEN), CHANNEL, base_url=fake.api, net=NET)


@pytest.mark.parametrize("error", ["message_not_found", "edit_window_closed", "cant_update_message"])
def test_a_parent_that_cannot_be_edited_is_replaced_by_a_new_one(
    fake: SlackFake, sink: SlackSink, error: str
) -> None:
    state = sink.send(note(), NOW).state
    fake.script.append(said_no(error))
    after = sink.send(note(Phase.UPDATED, state=state), NOW).state
    assert after["ts"] != state["ts"]
    again = sink.send(note(Phase.RESOLVED, state=after), NOW).state
    assert again == after
    assert len(fake.parents()) == 2


def test_a_deleted_parent_is_posted_anew(fake: SlackFake, sink: SlackSink) -> None:
    state = sink.send(note(), NOW).state
    fake.messages.clear()
    sink.send(note(Phase.RESOLVED, state=state), NOW)
    assert "rebalance storm is over" in fake.parents()[0].content["text"]


def test_a_replacement_posted_before_a_crash_is_found_and_not_the_dead_parent(
    fake: SlackFake, sink: SlackSink
) -> None:
    state = sink.send(note(), NOW).state
    fake.window_closed = True
    lost = sink.send(note(Phase.UPDATED, state=state), NOW).state
    fake.window_closed = False
    fake.script.append(said_no("edit_window_closed"))
    again = sink.send(note(Phase.UPDATED, state=state, maybe_sent=True), NOW).state
    assert again == lost
    assert len(fake.parents()) == 2


@pytest.mark.parametrize("phase", list(Phase))
def test_a_call_that_may_have_arrived_is_not_posted_twice(
    fake: SlackFake, sink: SlackSink, phase: Phase
) -> None:
    """The answer to each single call gets lost once; the same notification is then sent again."""
    state = sink.send(note(), NOW).state if phase is not Phase.OPENED else {}
    fake.script.append(Answer(cut=True, taken=True))
    for maybe_sent in (False, True):
        try:
            state = sink.send(note(phase, sequence=1, state=state, maybe_sent=maybe_sent), NOW).state
        except SinkError as error:
            assert not error.permanent  # noqa: PT017 - an attempt may also get through
    (parent,) = fake.parents()
    assert len(fake.news(parent.ts)) == (phase is not Phase.OPENED)


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("nth", range(3))
def test_whichever_call_of_an_update_breaks_off_the_thread_gets_one_reply(
    fake: SlackFake, sink: SlackSink, nth: int, *, taken: bool
) -> None:
    state = sink.send(note(), NOW).state
    fake.script.extend([*[None] * nth, Answer(cut=True, taken=taken)])
    for attempt in range(3):
        with suppress(SinkError):
            sink.send(note(Phase.UPDATED, state=state, maybe_sent=attempt > 0), NOW)
    assert len(fake.news(state["ts"])) == 1
    assert len(fake.parents()) == 1


def test_a_lost_state_continues_the_thread_that_is_there(fake: SlackFake, sink: SlackSink) -> None:
    first = sink.send(note(), NOW).state
    second = sink.send(note(Phase.RESOLVED, maybe_sent=True), NOW).state
    assert second == first
    assert len(fake.news(first["ts"])) == 1


def test_the_thread_is_found_behind_many_other_messages(fake: SlackFake, sink: SlackSink) -> None:
    first = sink.send(note(), NOW).state
    for number in range(450):
        fake._add(CHANNEL, {"text": f"chatter {number}"})
    assert sink.send(note(maybe_sent=True), NOW).state == first


@pytest.mark.parametrize("phase", [Phase.UPDATED, Phase.RESOLVED])
def test_details_that_could_not_be_posted_come_with_the_next_notification(
    fake: SlackFake, sink: SlackSink, phase: Phase
) -> None:
    fake.scopes.discard("channels:history")
    fake.script.extend([None, Answer(503)])
    state = sink.send(note(), NOW).state
    assert fake.details(state["ts"]) == []
    after = sink.send(note(phase, state=state), NOW).state
    assert after == {"channel": CHANNEL, "ts": state["ts"]}
    assert (len(fake.parents()), len(fake.details(state["ts"])), len(fake.news(state["ts"]))) == (1, 1, 1)


def test_without_the_right_to_read_history_it_is_notified_twice_rather_than_never(
    fake: SlackFake, sink: SlackSink
) -> None:
    fake.scopes.discard("channels:history")
    sink.send(note(maybe_sent=True), NOW)
    sink.send(note(maybe_sent=True), NOW)
    assert len(fake.parents()) == 2


@pytest.mark.parametrize("seed", range(12))
def test_through_any_trouble_one_thread_with_one_reply_for_each_change(seed: int) -> None:
    """Four calls of ten go wrong; every notification is sent until it arrives."""
    draw = random.Random(seed)  # noqa: S311 - not a secret
    with SlackFake(flaky=Flaky(0.4, "0", draw)) as fake:
        sink = SlackSink("team", SecretStr(TOKEN), CHANNEL, base_url=fake.api, net=NET)
        state: dict[str, str] = {}
        phases = (Phase.OPENED, Phase.UPDATED, Phase.UPDATED, Phase.ACKNOWLEDGED, Phase.RESOLVED)
        for sequence, phase in enumerate(phases):
            state = _until_sent(sink, note(phase, sequence=sequence, state=state))
        (parent,) = fake.parents()
        assert len(fake.news(parent.ts)) == len(phases) - 1
        assert len(fake.details(parent.ts)) <= 1
        assert parent.content["attachments"][0]["color"] == "#12b76a"
        assert fake.refused == []


def _until_sent(sink: SlackSink, notification: Notification) -> dict[str, str]:
    for _ in range(200):
        try:
            return sink.send(notification, NOW).state
        except SinkError as error:
            assert not error.permanent  # noqa: PT017 - an attempt may also get through
            notification = replace(notification, maybe_sent=True)
    pytest.fail("200 attempts")
