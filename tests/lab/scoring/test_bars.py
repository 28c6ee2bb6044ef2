import pytest

from rebalance_monitor.lab.scenario.limits import CLOSE, DEFAULTS, limits_of
from rebalance_monitor.lab.scoring.bars import (
    BARS,
    ENOUGH,
    POLL,
    SESSION,
    SILENT,
    Row,
    Verdict,
    by_version,
    cells,
    poor,
    rows,
)
from rebalance_monitor.lab.scoring.score import Band, Tally
from rebalance_monitor.lab.scoring.scored import Scored
from rebalance_monitor.lab.scoring.silences import Silences
from rebalance_monitor.lab.workers.families import FAMILIES, IDLE, MANUAL

Tallies = dict[tuple[str, str], Tally]


def _scored(tallies: Tallies, *losses: Band, hours: float = 100.0, **more: object) -> Scored:
    more = {"asked": tallies, **more}
    return Scored("x", tallies, losses=losses, quiet_hours={"raw": hours}, **more)  # type: ignore[arg-type]  # passed on


def _rows(tallies: Tallies, *losses: Band, **more: object) -> list[Row]:
    return list(rows(_scored(tallies, *losses, **more)))  # type: ignore[arg-type]  # passed on as they are


def _verdicts(tallies: Tallies, *losses: Band, **more: object) -> dict[tuple[str, str], Verdict]:
    return {(row.what, row.cell): row.verdict for row in _rows(tallies, *losses, **more)}


IDLE_BAR = "session timeouts, members that commit when idle"
OTHERS = "session timeouts, others under traffic"
HEALTHY = ("warnings about healthy groups", "all")


def test_every_family_has_one_cell_of_each_thing_that_is_judged() -> None:
    suffixes = ("", MANUAL, IDLE, f"{MANUAL}{IDLE}")
    families = [*(f"{name}{suffix}" for name in FAMILIES for suffix in suffixes), "connect-sinks"]
    for label in {bar.label for bar in BARS}:
        for family in families:
            assert len([bar for bar in BARS if bar.label == label and bar.cell(family)]) == 1


def test_a_client_that_commits_by_hand_is_not_taken_for_one_that_commits_when_idle() -> None:
    tallies = {
        (SESSION, family): Tally(60, 60, 60, 60) for family in ("kafka-python", "kafka-python, manual")
    }
    verdicts = _verdicts(tallies)
    assert (IDLE_BAR, "kafka-python") in verdicts
    assert (OTHERS, "kafka-python, manual") in verdicts


def test_without_traffic_only_who_commits_when_idle_must_be_found_but_nobody_wrongly() -> None:
    nothing = {(SESSION, "confluent, no traffic"): Tally(60, 0, 0, 0)}
    quiet = ("session timeouts, others without traffic", "confluent, no traffic")
    assert _verdicts(nothing)[quiet] == Verdict.REACHED
    wrong = {(SESSION, "confluent, no traffic"): Tally(60, 0, 10, 9)}
    assert _verdicts(wrong)[quiet] == Verdict.MISSED
    assert _verdicts({(SESSION, "kafka-python, no traffic"): Tally(60, 0, 0, 0)}) == {
        (IDLE_BAR, "kafka-python, no traffic"): Verdict.MISSED,
        HEALTHY: Verdict.REACHED,
    }


def test_the_assignors_of_java_are_one_cell_and_its_new_protocol_another_of_the_same_bar() -> None:
    tallies = {(SESSION, name): Tally(30, 30, 30, 30) for name in ("java-range", "java-sticky", "java-848")}
    verdicts = _verdicts(tallies)
    assert (verdicts[IDLE_BAR, "java"], verdicts[IDLE_BAR, "java-848"]) == (Verdict.REACHED, Verdict.TOO_FEW)


def test_a_cell_is_held_to_its_own_recall_and_precision() -> None:
    exact = {(SESSION, "aiokafka"): Tally(100, 95, 100, 97), (SESSION, "confluent"): Tally(100, 85, 100, 95)}
    assert _verdicts(exact)[IDLE_BAR, "aiokafka"] == _verdicts(exact)[OTHERS, "confluent"] == Verdict.REACHED
    recall = {(SESSION, "aiokafka"): Tally(100, 94, 100, 97), (SESSION, "confluent"): Tally(100, 84, 100, 95)}
    assert _verdicts(recall)[IDLE_BAR, "aiokafka"] == _verdicts(recall)[OTHERS, "confluent"] == Verdict.MISSED
    wrong = {(SESSION, "aiokafka"): Tally(100, 95, 100, 96), (SESSION, "confluent"): Tally(100, 85, 100, 94)}
    assert _verdicts(wrong)[IDLE_BAR, "aiokafka"] == _verdicts(wrong)[OTHERS, "confluent"] == Verdict.MISSED


def test_too_few_truths_are_no_verdict_and_are_wanted_again() -> None:
    tallies = {
        (POLL, "confluent"): Tally(ENOUGH - 1, 59, 59, 59),
        (POLL, "aiokafka"): Tally(ENOUGH, 60, 60, 60),
    }
    assert _verdicts(tallies)["poll intervals exceeded, others under traffic", "confluent"] == Verdict.TOO_FEW
    assert poor(_scored(tallies)) == {(POLL, "confluent", "")}
    assert poor(_scored(tallies), enough=ENOUGH - 1) == set()


def test_few_truths_do_not_hide_what_no_more_of_them_can_mend() -> None:
    place = (OTHERS, "confluent")
    assert _verdicts({(SESSION, "confluent"): Tally(59, 50, 9, 0)})[place] == Verdict.MISSED
    assert _verdicts({(SESSION, "confluent"): Tally(59, 20, 20, 20)})[place] == Verdict.MISSED
    assert _verdicts({(SESSION, "confluent"): Tally(9, 8, 9, 8)})[place] == Verdict.TOO_FEW
    assert (
        _verdicts({("rebalance", "confluent"): Tally(58, 58, 58, 58)})["rebalances", "classic"]
        == Verdict.TOO_FEW
    )
    one_wrong = {("rebalance", "confluent"): Tally(59, 59, 60, 59)}
    assert _verdicts(one_wrong)["rebalances", "classic"] == Verdict.MISSED


def test_limits_that_are_close_and_those_of_the_clients_are_judged_by_themselves() -> None:
    long, short = {(SESSION, "kafka-python"): Tally(60, 20, 20, 20)}, {(POLL, "confluent"): Tally(9, 9, 9, 9)}
    scored = _scored(
        {(SESSION, "kafka-python"): Tally(600, 590, 590, 590)}, limits={DEFAULTS: long, CLOSE: short}
    )
    verdicts = {(row.what, row.cell): row.verdict for row in rows(scored)}
    assert verdicts[IDLE_BAR, "kafka-python"] == Verdict.REACHED
    assert verdicts[f"{IDLE_BAR}, {DEFAULTS}", "all"] == Verdict.MISSED
    assert verdicts[f"poll intervals exceeded, others under traffic, {CLOSE}", "all"] == Verdict.TOO_FEW
    assert poor(scored) == {(POLL, "confluent", CLOSE)}


def test_limits_are_close_or_those_of_the_clients_or_neither() -> None:
    assert (limits_of(6_000, 8_000), limits_of(45_000, 300_000), limits_of(6_000, 60_000)) == (
        CLOSE,
        DEFAULTS,
        "",
    )


def test_each_version_of_the_broker_shows_what_was_missed_and_wrong_on_it() -> None:
    old, new = {(SESSION, "confluent"): Tally(4, 1, 3, 1)}, {(SESSION, "confluent"): Tally(50, 50, 50, 50)}
    lines = by_version(_scored({}, versions={"2.8.2": old, "4.1.1": new})).splitlines()
    assert lines[2] == "| bar | clients | 2.8.2 | 4.1.1 |"
    assert lines[4:] == [f"| {OTHERS} | confluent | 1 of 4, **2 wrong** | 50 of 50 |"]


def test_what_few_scenarios_play_is_one_cell_at_the_end() -> None:
    families = ("streams", "streams-1071", "confluent-848", "confluent-cooperative", "confluent")
    tallies = {(SESSION, family): Tally(20, 20, 20, 20) for family in families}
    (bar,) = (bar for bar in BARS if bar.what == OTHERS)
    assert {name: one.facts for name, one in cells(bar, tallies).items()} == {
        "confluent": 20,
        "confluent-848": 20,
        "confluent-cooperative": 20,
        "all others": 40,
    }


@pytest.mark.parametrize("family", sorted(SILENT))
def test_those_that_write_nothing_when_they_work_are_held_to_what_is_known_without_traffic(
    family: str,
) -> None:
    found = _rows({(SESSION, family): Tally(60, 0, 0, 0)})
    (row,) = (row for row in found if row.cell == "all others")
    assert (row.what, row.verdict) == ("session timeouts, others without traffic", Verdict.REACHED)


def test_one_warning_about_a_healthy_group_is_a_miss_however_short_the_time() -> None:
    assert _verdicts({}, noise=1, hours=1)[HEALTHY] == Verdict.MISSED
    assert _verdicts({}, noise=0, hours=99)[HEALTHY] == Verdict.TOO_FEW
    assert _verdicts({}, noise=0, hours=100)[HEALTHY] == Verdict.REACHED


def test_a_band_is_held_to_the_mean_of_what_it_stated() -> None:
    bands = Band(0.7, 20, 17, 0.76), Band(0.8, 20, 20, 0.89), Band(0.9, 19, 1, 0.95)
    lost, other = "how members were lost", "what else is said of members"
    verdicts = _verdicts({}, *bands, others=[Band(0.9, 900, 900, 0.95)])
    assert verdicts["calibration, 0.7 to 0.8", lost] == Verdict.REACHED
    assert verdicts["calibration, 0.8 to 0.9", lost] == Verdict.MISSED
    assert verdicts["calibration, 0.9 to 1.0", lost] == Verdict.TOO_FEW
    assert verdicts["calibration, 0.9 to 1.0", other] == Verdict.REACHED


def test_delays_are_judged_where_they_were_measured_with_what_writing_takes() -> None:
    prompt = {("rebalance", "confluent"): Tally(60, 60, 60, 60, (1.0,) * 59 + (9.0,))}
    late = {("rebalance", "confluent"): Tally(60, 60, 60, 60, (1.0,) * 50 + (2.6,) * 10)}
    place = ("rebalances, log line to finding written, p95", "all")
    assert (_verdicts(prompt)[place], _verdicts(late)[place]) == (Verdict.REACHED, Verdict.MISSED)
    assert _verdicts(prompt, written_s=(0.1,) * 9 + (1.6,) * 2)[place] == Verdict.MISSED
    assert not any("finding written" in row.what for row in _rows({}))
    silent = {0.9: Silences(2, 2, (3.9, 4.0)), 0.7: Silences(1, 1, (4.1,))}
    silences = ("silences, deadline to finding written, p95", "all")
    assert _verdicts({}, silences=silent)[silences] == Verdict.MISSED
