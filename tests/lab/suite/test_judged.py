"""Recordings judged from more or less of their evidence, and what of that the bars count."""

from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from rebalance_monitor.lab.scoring.matching import Claim
from rebalance_monitor.lab.scoring.results import REPLAY, Result, result_of
from rebalance_monitor.lab.suite.healthy import Counted
from rebalance_monitor.lab.suite.judged import (
    LEAST,
    Judged,
    by_families,
    by_margins,
    calibrated,
    judged,
    line,
    main,
    margins,
)
from rebalance_monitor.lab.truth.fold import Fact
from rebalance_monitor.lab.truth.recorded_suite import read_suite
from rebalance_monitor.lab.workers.timings import Timing

RECORDING = Path(__file__).parents[2] / "fixtures" / "scenarios" / "moved-4.1.1"
TIMEOUT = "cause:session_timeout"


def _result(group: str, confidences: list[float], *, commit: int = 10_000) -> Result:
    """Give as many expired members of one group as confidences; of the last one another is named."""
    members = [f"m{number}" for number in range(len(confidences))]
    facts = [Fact(TIMEOUT, group, 5, member, 1_000) for member in members]
    named = [*members[:-1], "another"]
    claims = [
        Claim(TIMEOUT, group, 5, name, sure, 2_000) for name, sure in zip(named, confidences, strict=True)
    ]
    return Result(
        {"kafka": "4.1.1", "seed": 1},
        facts,
        {REPLAY: claims},
        {group: "confluent"},
        timings={group: str(Timing(45_000, 5_000, commit, 90_000, "timer"))},
    )


def test_a_recording_is_judged_from_its_records_alone_and_with_its_samples() -> None:
    suite = read_suite(RECORDING)
    alone, sampled = (judged(suite, "moved", way) for way in ("records", "records, samples"))
    assert alone is not None
    assert sampled is not None
    assert sampled.result.claims == result_of(suite).claims
    assert alone.result.claims != sampled.result.claims
    assert alone.result.facts == sampled.result.facts
    # It has no samples of ends.
    assert judged(suite, "moved", "records, samples, ends") is None


def test_what_happened_in_minutes_that_are_left_out_is_not_counted() -> None:
    suite = read_suite(RECORDING)
    whole, part, none = (judged(suite, "one", "records", skip) for skip in (0, 60_000, 3_600_000))
    assert whole is not None
    assert part is not None
    assert none is not None
    assert len(whole.result.facts) > len(part.result.facts) > 0
    assert len(whole.result.claims[REPLAY]) > len(part.result.claims[REPLAY]) > 0
    assert not none.result.facts
    assert not none.result.claims[REPLAY]


def test_what_a_bar_counts_is_on_one_line() -> None:
    results = _result("g", [0.95] * 3 + [0.85]), _result("h", [0.95] * 9, commit=60_000)
    healthy = Counted("one", 3, 2.0, Counter(session_timeout=1, storm=1))
    found = line([Judged("one", "records", result, healthy) for result in results], "all", "records")
    assert "| 3 of 4: 0.75 (0.30-0.95) |" in found
    assert "| 3 of 4: 0.75 (0.30-0.95) | 3 of 3: 1.00 (0.44-1.00) | 4 in 4 group-hours |" in found


def test_margins_with_enough_truths_are_printed_over_all_kinds_of_loss() -> None:
    rows = margins([_result("g", [0.9] * LEAST), _result("g", [0.5] * 5)], often=True)
    lines = list(by_margins(rows))[1:]
    assert any(one.startswith(f"| family | confluent | {LEAST - 1} of {LEAST + 5}: 0.91") for one in lines)
    assert all("59 of 60: 0.98" in one for one in lines)
    assert list(by_margins(margins([_result("g", [0.9] * 5)], often=True)))[1:] == []


def test_what_was_stated_stands_beside_what_was_true() -> None:
    found = list(calibrated([_result("g", [0.92] * 4), _result("g", [0.65, 0.65])]))
    assert "| 0.9-1.0 | 0.92 | 4 | 0.75 (0.30-0.95) |" in found
    assert "| 0.6-0.7 | 0.65 | 2 | 0.50 (0.09-0.91) |" in found


def test_the_command_prints_every_way_that_a_recording_can_be_judged() -> None:
    done = CliRunner().invoke(main, [str(RECORDING)])
    assert done.exit_code == 0, done.output
    assert "records, samples, ends" not in done.output
    assert done.output.count("| records |") == 2
    assert done.output.count("| records, samples |") == 2


def test_each_family_is_counted_by_what_it_was_judged_from() -> None:
    ways = {"records": [_result("g", [0.5, 0.95])], "records, samples": [_result("g", [0.9, 0.9, 0.95])]}
    found = list(by_families(ways))[1:]
    assert [one.split(" | ")[:3] for one in found] == [
        ["| confluent", "records", "0 of 2: 0.00 (0.00-0.66)"],
        ["| confluent", "records, samples", "2 of 3: 0.67 (0.21-0.94)"],
    ]
