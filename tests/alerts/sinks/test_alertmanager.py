"""The Alertmanager sink against a real Alertmanager."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from rebalance_monitor.alerts.incidents.alert import NEVER
from rebalance_monitor.alerts.messages.notification import Notification, Phase
from rebalance_monitor.alerts.sinks.alertmanager import AlertmanagerSink
from tests.alerts.sinks.notes import HOSTILE, note
from tests.alerts.support.alertmanager import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

CONFIGURATION = {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    with running(CONFIGURATION, frozenset(), folder) as manager:
        yield manager.url


@pytest.fixture
def sink(address: str) -> Iterator[AlertmanagerSink]:
    with closing(AlertmanagerSink("am", (address,), resend_ms=30_000)) as made:
        yield made


def test_an_alert_fires_while_its_finding_lasts_and_then_ends(address: str, sink: AlertmanagerSink) -> None:
    state = sink.send(_now("lifetime"), _ms()).state
    (shown,) = _of(address, "lifetime")
    assert shown["status"]["state"] in {"active", "unprocessed"}
    assert shown["annotations"]["summary"] == "[prod] lifetime is in a rebalance storm"
    sink.send(_now("lifetime", Phase.REPEATED, state), _ms())
    sink.send(_now("lifetime", Phase.RESOLVED, state), _ms())
    _until(lambda: not _of(address, "lifetime"))


def test_an_alert_outlives_a_missed_push(address: str, sink: AlertmanagerSink) -> None:
    sent = _ms()
    sink.send(_now("missed"), sent)
    (shown,) = _of(address, "missed")
    assert datetime.fromisoformat(shown["endsAt"]).timestamp() * 1_000 >= sent + 2 * 30_000


def test_an_alert_that_is_notified_no_more_ends_by_itself(address: str) -> None:
    with closing(AlertmanagerSink("am", (address,), resend_ms=500)) as sink:
        sink.send(_now("forgotten"), _ms())
    _until(lambda: not _of(address, "forgotten"))


def test_sending_twice_is_one_alert_and_changed_labels_leave_none_behind(
    address: str, sink: AlertmanagerSink
) -> None:
    sink.send(_now("changing"), _ms())
    state = sink.send(_now("changing"), _ms()).state
    first = _now("changing", Phase.UPDATED, state)
    changed = replace(first.alerts[0], labels={**first.alerts[0].labels, "cause": "member_left"})
    sink.send(replace(first, alerts=(changed,)), _ms())
    _until(lambda: [each["labels"]["cause"] for each in _of(address, "changing")] == ["member_left"])


def test_alertmanager_takes_a_hostile_group(address: str, sink: AlertmanagerSink) -> None:
    sink.send(_now(HOSTILE), _ms())
    assert any("evil.example" in each["labels"]["group"] for each in _alerts(address))


def _now(group: str, phase: Phase = Phase.OPENED, state: dict[str, str] | None = None) -> Notification:
    made = note(phase, group=group, state=state or {})
    ends_at = _ms() if phase is Phase.RESOLVED else NEVER
    return replace(made, alerts=tuple(replace(alert, ends_at=ends_at) for alert in made.alerts))


def _alerts(address: str) -> list[dict[str, Any]]:
    return list(httpx.get(f"{address}/api/v2/alerts", timeout=5, trust_env=False).json())


def _of(address: str, group: str) -> list[dict[str, Any]]:
    return [each for each in _alerts(address) if each["labels"].get("group") == group]


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)


def _ms() -> int:
    return time.time_ns() // 1_000_000
