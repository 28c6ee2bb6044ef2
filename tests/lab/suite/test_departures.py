"""The departure model against simulated truth, and what `make fit` may and may not do."""

import re
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.departure import fitted
from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, Trace
from rebalance_monitor.coordinator.departure.fitted import FITTED
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.departure.waits import tried_heartbeats
from rebalance_monitor.lab.scoring.margins import ALL, LEAST
from rebalance_monitor.lab.simulator.plans.setup import SHAKEN
from rebalance_monitor.lab.simulator.study.recorded import removals_of
from rebalance_monitor.lab.suite import corpus, fit
from rebalance_monitor.lab.suite.corpus import settled, surprise
from rebalance_monitor.lab.suite.departures import (
    FIRST_UNSEEN,
    Life,
    answers,
    as_margins,
    beside,
    recorded_groups,
    simulated,
    way_of_fact,
    with_settings,
)
from rebalance_monitor.lab.truth.truth import Truth
from rebalance_monitor.lab.workers.timings import Timing


@pytest.fixture(scope="module")
def lives() -> list[Life]:
    """Groups at production timings, of seeds that nothing is fitted on."""
    return simulated(range(FIRST_UNSEEN, FIRST_UNSEEN + 60))


def test_claims_at_production_timings_are_true(lives: list[Life]) -> None:
    claims = [(max(shares), Way(shares.index(max(shares))) is true) for shares, true in answers(lives)]
    sure = [right for share, right in claims if share >= 0.8]
    assert len(sure) >= 0.7 * len(claims)
    assert sum(sure) >= 0.94 * len(sure)


def test_a_missed_sync_is_never_claimed_of_another_departure(lives: list[Life]) -> None:
    assert not [
        true for shares, true in answers(lives) if shares[Way.UNSYNCED] >= 0.8 and true is not Way.UNSYNCED
    ]


@pytest.mark.parametrize(
    ("what", "ms", "way"),
    [
        ("expired", 5_000, Way.STALLED),
        ("expired", 60_000, Way.DIED),
        ("left", 300, Way.STALLED),
        ("left", 60_000, Way.LEFT),
    ],
)
def test_a_member_whose_journal_has_a_breach_stalled_whether_it_closed_or_expired(
    what: str, ms: int, way: Way
) -> None:
    """A static member sends no LeaveGroup as its max.poll.interval ends: its log says that it expired."""
    breach = Truth(1_000_000, "g", "poll_breach", -1, ("m-1",), "", source="journal")
    gone = [Truth(1_000_000 + ms, "g", what, 3, (name,), "") for name in ("m-1", "m-2")]
    ways = {fact.member: way_of_fact(fact) for fact in removals_of([breach, *gone])}
    assert ways == {"m-1": way, "m-2": Way.DIED if what == "expired" else Way.LEFT}


def test_what_was_fitted_explains_the_truth_better_than_the_first_values(lives: list[Life]) -> None:
    by_fitted, by_first = (
        sum(surprise(case, by) for case in settled(lives, by)) for by in (FITTED, corpus.START)
    )
    assert by_fitted < by_first


def test_each_constant_is_a_share_or_a_time_and_alternatives_are_at_most_everything() -> None:
    assert all(0 < value < 1 or value > 1 for value in FITTED)
    assert fit.is_possible(FITTED)


def test_a_fit_that_finds_the_same_constants_writes_the_same_module() -> None:
    text = Path(fitted.__file__).read_text(encoding="utf-8")
    said = text.partition(fit.GENERATED)[2].partition("INPUTS")[0]
    about = " ".join(line.removeprefix("# ") for line in said.splitlines())
    assert re.search(r"surprise 0\.\d{4} each", about)
    assert fit.written(fit.rounded(FITTED), fitted.REJOINING, about, fitted.INPUTS) == text


def test_a_fit_that_was_stopped_goes_on_to_the_same_constants(tmp_path: Path, lives: list[Life]) -> None:
    moved = ("uncaused", "returned")
    far = corpus.START._replace(uncaused=0.4, returned=0.01)
    some, whole, parts = (
        corpus.Corpus(lives[:20], lives[20:40], []),
        tmp_path / "whole.json",
        tmp_path / "parts.json",
    )
    fitted = partial(fit.fit, some, processes=1, only=moved, first=far)
    at_once, ended = fitted(whole, "these", float("inf"))
    assert ended
    assert at_once != far
    assert fitted(parts, "these", 0.0) == (far, False)
    kept = msgspec.json.decode(whole.read_bytes(), type=fit.Progress)
    half = msgspec.structs.replace(kept, done=len(moved), best=kept.began)
    parts.write_bytes(msgspec.json.encode(half))
    assert fitted(parts, "these", float("inf")) == (at_once, True)
    assert fitted(whole, "others", 0.0) == (far, False)


def test_a_rebalance_is_judged_again_only_where_its_likelihoods_read_the_constant(lives: list[Life]) -> None:
    cases = settled(lives[:12], corpus.START)
    with fit.Judges(cases, 1) as judges:
        before = judges.losses(corpus.START)
        for name in ("returned", "unjoined_enforcing", "stalled_first"):
            moved = corpus.START._replace(**{name: 0.9 * getattr(corpus.START, name)})
            after = judges.losses(moved)
            changed = {
                place for place, (one, two) in enumerate(zip(before, after, strict=True)) if one != two
            }
            assert changed <= set(judges.reads[name])
        assert 0 < len(judges.reads["returned"]) < len(cases)


def test_departures_of_epoch_based_groups_have_their_truth_but_for_members_that_come_back() -> None:
    """In `members-removed` an administrator removed a member, which no log tells, and it came back."""
    lives = recorded_groups(corpus.RECORDINGS / "matrix-4.3.0")
    epochs = {group: [one for one in life if one.evidence.apart] for group, life in lives.items()}
    ways = Counter(way for life in epochs.values() for one in life for way in one.ways)
    assert ways == {Way.LEFT: 24, Way.DIED: 9, None: 8}
    assert None in [way for one in epochs["members-removed.confluent-848"] for way in one.ways]
    assert all(len(one.ways) == len(one.evidence.departed) for life in lives.values() for one in life)


@given(st.floats(-3, 3), st.floats(0.1, 5))
def test_the_top_of_a_parabola_is_tried_unless_it_is_near_to_what_was_tried(top: float, bend: float) -> None:
    here, up, down = (bend * (place - top) ** 2 for place in (0.0, 1.0, -1.0))
    found = fit.top_of(here, up, down)
    tried = [0.0, 1.0, -1.0, *([found] if found else [])]
    assert min(abs(place - max(-2.0, min(2.0, top))) for place in tried) <= 0.15 + 1e-6


@pytest.mark.parametrize(
    ("family", "client"), [("confluent-cooperative", "librdkafka"), ("aiokafka", "aiokafka")]
)
def test_the_true_settings_of_a_group_take_the_place_of_what_records_leave_open(
    family: str, client: str
) -> None:
    guessed = Departed(45_000, 300_000, 60_000, Trace(20_000, (9_000,), commits=2), "unknown")
    evidence = Evidence(60_000, 0, (guessed,), (), 2, 0, 300_000, 45_000)
    timing = Timing(45_000, 15_000, 10_000, 90_000, "timer")
    known = with_settings(evidence, timing, family)
    (one,) = known.departed
    assert (one.family, one.named, one.trace.gaps) == (client, True, (10_000,) * 4)
    assert one.poll_interval == (90_000 if client == "aiokafka" else 0)
    tried = tried_heartbeats(45_000, 300_000)
    assert max(zip(known.beats, tried, strict=True))[1] == 15_000


def test_losses_stand_beside_what_one_names_who_knows_the_settings(tmp_path: Path) -> None:
    """A recording at fast timings, as if these had been drawn."""
    folder = tmp_path / "recording"
    shutil.copytree(corpus.RECORDINGS / "python-4.1.1", folder)
    for path in folder.rglob("scenario.yaml"):
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        raw["timings"], raw["settings"]["timings"] = 1, str(Timing(6_000, 1_000, 1_000, 8_000, "auto"))
        path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    rows = beside([folder])
    truths, reached, most = rows[ALL]
    assert truths >= max(reached, most) >= min(reached, most) > 0
    assert sum(row[0] for (kind, _), row in rows.items() if kind == "family") == truths
    assert rows["Kafka", "4.1.1"] == rows[ALL]
    table = as_margins({ALL: (LEAST, 54, 57), ("family", "rare"): (LEAST - 1, 54, 57)})
    assert table.splitlines()[2:] == ["| all |  | 60 | 0.90 | 0.95 | 0.95 |"]


def test_what_samples_tell_completes_the_evidence_and_leaves_its_truth() -> None:
    lives = recorded_groups(corpus.RECORDINGS / "matrix-4.3.0", sampled=True)
    plain = recorded_groups(corpus.RECORDINGS / "matrix-4.3.0")
    assert {group: [one.ways for one in life] for group, life in lives.items()} == {
        group: [one.ways for one in life] for group, life in plain.items()
    }
    told = [one for life in lives.values() for one in life if one.completed is not None]
    assert len(told) > 60
    for one in told:
        assert one.completed is not None
        assert one.completed.phase != one.evidence.phase or one.completed.departed != one.evidence.departed
        traces = [[gone.trace for gone in it.departed] for it in (one.completed, one.evidence)]
        assert traces[0] == traces[1]


def test_outages_of_the_corpus_are_known_only_by_samples() -> None:
    lives = simulated(corpus.OUTAGES[:12], SHAKEN, sampled=True)
    gone = [one for life in lives for seen in life for one in seen.evidence.departed]
    told = [one for life in lives for seen in life if seen.completed for one in seen.completed.departed]
    assert all(one.loaded < 0 and one.woke < 0 for one in gone)
    assert any(one.loaded >= 0 for one in told)
    assert any(one.woke >= 0 for one in told)


def test_no_constant_is_left_by_hand() -> None:
    assert "as no rebalance of these reads them: none." in " ".join(
        Path(fitted.__file__).read_text(encoding="utf-8").replace("\n# ", " ").split()
    )
