"""What every sink must do: the tests that each sink's test class inherits.

A harness is a sink with the service it talks to. It says what the service took in, and can be told to go
wrong in the three ways that the dispatcher tells apart.
"""

from __future__ import annotations

import logging
import traceback
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import pytest

from rebalance_monitor.alerts.messages.notification import Phase, Sent, SinkError
from tests.alerts.sinks.notes import HOSTILE, NOW, note

if TYPE_CHECKING:
    from rebalance_monitor.alerts.messages.notification import Notification, Sink


class Trouble(StrEnum):
    """What goes wrong with the next call."""

    RETRYABLE = "retryable"
    PERMANENT = "permanent"
    RATE_LIMIT = "rate_limit"
    SILENCE = "silence"


RETRY_AFTER_S = 7.0


class Harness(Protocol):
    """A sink and its service. `troubles`: what this service can do wrong. `secrets` must never be seen."""

    sink: Sink
    secrets: tuple[str, ...]
    troubles: tuple[Trouble, ...]

    def received(self) -> list[str]:
        """Return what the service took in, decoded, oldest first."""
        ...

    def goes_wrong(self, trouble: Trouble) -> None:
        """Let the next call fail."""
        ...


class SinkContract:
    """For every sink: inherit, and give a fixture `harness`."""

    def test_each_phase_of_an_incident_arrives(self, harness: Harness) -> None:
        state: dict[str, str] = {}
        phases = (Phase.OPENED, Phase.UPDATED, Phase.ACKNOWLEDGED, Phase.REPEATED, Phase.RESOLVED)
        for sequence, phase in enumerate(phases):
            before = len(harness.received())
            state = _tell(harness, note(phase, sequence=sequence, state=state))
            assert len(harness.received()) > before, phase
        assert all(isinstance(value, str) for value in state.values())

    def test_a_notification_names_the_group_what_happened_and_the_cause(self, harness: Harness) -> None:
        before = len(harness.received())
        _tell(harness, note())
        said = "\n".join(harness.received()[before:])
        for words in ("orders", "is in a rebalance storm", "ession timeout", "orders-3", "Stop or fix"):
            assert words in said, words

    def test_a_permanent_error_is_raised_as_one(self, harness: Harness) -> None:
        harness.goes_wrong(Trouble.PERMANENT)
        with pytest.raises(SinkError) as raised:
            harness.sink.send(note(), NOW)
        assert raised.value.permanent

    def test_a_hostile_group_arrives_and_is_only_letters(self, harness: Harness) -> None:
        state = _tell(harness, note(group=HOSTILE))
        _tell(harness, note(Phase.RESOLVED, group=HOSTILE, state=state))
        for said in harness.received():
            assert not any(char in said for char in "\x00\x1b\u202e")

    def test_no_secret_is_in_an_error_a_repr_or_a_log_line(
        self, harness: Harness, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        seen = [repr(harness.sink), str(harness.sink)]
        with caplog.at_level(logging.DEBUG):
            _tell(harness, note())
            for trouble in harness.troubles:
                harness.goes_wrong(trouble)
                try:
                    harness.sink.send(note(), NOW)
                except SinkError as error:
                    seen += [repr(error), error.why, "".join(traceback.format_exception(error))]
            harness.sink.close()
        seen += [caplog.text, *capfd.readouterr()]
        assert seen[0]
        assert not [secret for secret in harness.secrets if any(secret in text for text in seen)]


class RemoteContract(SinkContract):
    """For sinks whose service is another process."""

    def test_a_retryable_error_is_raised_as_one_and_the_next_attempt_arrives(self, harness: Harness) -> None:
        harness.goes_wrong(Trouble.RETRYABLE)
        with pytest.raises(SinkError) as raised:
            harness.sink.send(note(), NOW)
        assert not raised.value.permanent
        _tell(harness, note(maybe_sent=True))
        assert harness.received()

    def test_a_service_that_does_not_answer_is_retryable(self, harness: Harness) -> None:
        harness.goes_wrong(Trouble.SILENCE)
        with pytest.raises(SinkError) as raised:
            harness.sink.send(note(), NOW)
        assert not raised.value.permanent


class LimitedContract(RemoteContract):
    """For services that limit the rate of calls."""

    def test_a_rate_limit_says_how_long_to_wait(self, harness: Harness) -> None:
        harness.goes_wrong(Trouble.RATE_LIMIT)
        with pytest.raises(SinkError) as raised:
            harness.sink.send(note(), NOW)
        assert not raised.value.permanent
        assert raised.value.retry_after_s == RETRY_AFTER_S


def _tell(harness: Harness, notification: Notification) -> dict[str, str]:
    sent = harness.sink.send(notification, NOW)
    assert isinstance(sent, Sent)
    return sent.state
