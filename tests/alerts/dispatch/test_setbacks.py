"""A clock that is set back makes nobody wait longer; files that somebody damaged say what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.alerts.dispatch.retry import Pace
from rebalance_monitor.alerts.dispatch.watchdog import Watchdog, WatchdogRule
from rebalance_monitor.alerts.engine.decision import Entry, Reason, needs_update
from rebalance_monitor.alerts.engine.engine import Engine
from rebalance_monitor.alerts.engine.types import State
from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.runtime.inbox import Inbox
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile, MemoryFileError
from rebalance_monitor.alerts.runtime.silences import SilenceFiles
from rebalance_monitor.alerts.setup.setup import rules_of
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.main import run
from rebalance_monitor.config.alerts import Alerts
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import AT, finding
from tests.alerts.support.play import Play, storm

if TYPE_CHECKING:
    from pathlib import Path

MINUTE, HOUR = 60_000, 3_600_000


@pytest.mark.parametrize("by", [10 * MINUTE, 59 * MINUTE, 30 * HOUR])
def test_a_clock_that_is_set_back_makes_no_pause_longer(by: int) -> None:
    pace = Pace()
    assert pace.may_send(AT, 30)
    pace.fail(SinkError("away", retry_after_s=20), AT, 0.5)
    assert not pace.may_send(AT - by, 30)
    assert not pace.may_send(AT - by + 19_000, 30)
    assert pace.may_send(AT - by + 20_000, 30)
    assert pace.is_failing(AT - by + 20_000, 20_000)


def test_a_clock_that_is_set_back_does_not_silence_the_watchdog() -> None:
    dog = Watchdog(WatchdogRule(("pager",), MINUTE, 2 * MINUTE), batch_at=AT, tried_at={"pager": AT})
    assert not dog.is_due("pager", AT + MINUTE - 1)
    dog.batch_at = AT - HOUR
    assert dog.is_due("pager", AT - HOUR)


def test_a_clock_that_is_set_back_does_not_let_a_dead_job_seem_alive() -> None:
    dog = Watchdog(WatchdogRule(("pager",), MINUTE, 2 * MINUTE), batch_at=AT)
    assert dog.lives(AT - MINUTE)
    assert not dog.lives(AT - HOUR)


def test_a_clock_that_is_set_back_lets_no_alert_end_at_an_alertmanager_while_it_fires() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m"}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(storm())
    assert Reason.RESEND in {reason for *_, reason in play.run(3 * MINUTE)}
    play.now -= HOUR
    again = [reason for *_, reason in play.run(4 * MINUTE)]
    assert len(again) >= 4  # it forgets after four minutes
    assert set(again) == {Reason.RESEND}


def test_a_clock_that_was_far_ahead_puts_no_repetition_off_and_publishes_nothing_twice() -> None:
    told = Entry(AT, frozenset({"a"}), frozenset())

    def due(now: int) -> Reason | None:
        return needs_update(told, told.firing, frozenset(), now, repeat_interval=HOUR, send_resolved=True)

    assert due(AT - 48 * HOUR) is Reason.REPEAT
    assert due(AT - MINUTE) is None


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_notified_while_the_clock_was_a_day_ahead_is_over_in_time(*, restarts: bool) -> None:
    play = Play()
    play.happens(finding(Kind.SESSION_TIMEOUT))
    assert [phase for _, phase, _ in play.run(MINUTE)] == [Phase.OPENED]
    play.now -= 24 * HOUR
    if restarts:
        play.start()
    assert [phase for _, phase, _ in play.run(20 * MINUTE)][-1:] == [Phase.RESOLVED]


def test_what_is_over_is_not_notified_again_when_the_clock_is_set_back() -> None:
    play = Play()
    play.happens(finding(Kind.SESSION_TIMEOUT))
    assert [phase for _, phase, _ in play.run(20 * MINUTE)] == [Phase.OPENED, Phase.RESOLVED]
    play.now -= HOUR
    assert play.run(20 * MINUTE) == []


def test_a_clock_that_is_set_back_does_not_keep_what_is_over_for_ever() -> None:
    state = State(collected_at=AT)
    section = Alerts.model_validate({"receivers": [{"name": "a", "console": {}}], "route": {"receiver": "a"}})
    Engine(rules_of(section), state).due(AT - HOUR)
    assert state.collected_at == AT - HOUR


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]\n", b"null\n", b'{"format": 1}\n'])
def test_a_damaged_memory_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.jsonl"
    path.write_bytes(content)
    with pytest.raises(MemoryFileError, match="move it away"):
        MemoryFile(path).load()


@pytest.mark.parametrize(
    "change",
    [
        {"ends_at": "tomorrow"},
        {"starts_at": None},
        {"matchers": ['group=~"("']},
        {"matchers": ['group=~".*"']},
        {"matchers": []},
        {"matchers": 5},
        {"until": 3},
        {"starts_at": -(10**15)},
        {"ends_at": AT + 2},
    ],
)
def test_a_silence_that_somebody_wrote_wrongly_is_refused_when_it_is_read(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    file = SilenceFiles(tmp_path)
    file.add('group="orders"', AT + 1, "me", "", AT)
    (path,) = (tmp_path / "silences").iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    found, damaged = file.read()
    assert found == []
    assert "correct it, or move it away" in damaged[path.name]


def test_what_does_not_belong_into_the_inbox_stops_no_start_and_loses_no_batch(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.put(("q", 1), [finding(Kind.STORM)])
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "q-x.jsonl").write_bytes(b"\xff")
    assert inbox.open({"q": 1}) == [("q", 1)]
    assert len(inbox.read(("q", 1))) == 1


@pytest.mark.parametrize("verb", [["list"], ["add", 'group="orders"'], ["expire", "6f1c2a90"]])
def test_a_storage_folder_that_cannot_be_used_is_reported_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    (tmp_path / "store").write_text("a file")
    path = ["--set", f"storage.path={tmp_path / 'store'}"]
    assert run(["alerts", "silence", *verb, *path]) == ExitCode.USAGE
    assert "names no job's folder" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["list"], ["add", 'group="orders"'], ["expire", "6f1c2a90"]])
def test_silences_of_no_job_are_refused_and_leave_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    path = ["--set", f"storage.path={tmp_path / 'nowhere'}"]
    assert run(["alerts", "silence", *verb, *path]) == ExitCode.USAGE
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_a_silence_names_its_folder_and_lasts_five_years_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["alerts", "silence", "add", 'group="orders"', "--set", f"storage.path={tmp_path}"]
    assert run([*words, "--for", "1h"]) == ExitCode.FINE
    assert str(tmp_path / "alerts" / "silences") in capsys.readouterr().err
    assert run([*words, "--for", "60y"]) == ExitCode.USAGE
    assert "five years" in capsys.readouterr().err
