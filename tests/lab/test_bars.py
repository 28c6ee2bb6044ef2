from rebalance_monitor.lab.bars import BARS, ENOUGH, POLL, SESSION, Row, Verdict, cells, poor, rows
from rebalance_monitor.lab.families import FAMILIES, IDLE, MANUAL
from rebalance_monitor.lab.report import Scored
from rebalance_monitor.lab.score import Band, Tally
from rebalance_monitor.lab.silences import Silences

Tallies = dict[tuple[str, str], Tally]


def _scored(
    tallies: Tallies,
    *bands: Band,
    noise: int = 0,
    hours: float = 100.0,
    silences: dict[float, Silences] | None = None,
) -> Scored:
    return Scored("x", tallies, bands, {}, silences or {}, noise, hours)


def _rows(tallies: Tallies, *bands: Band, **more: object) -> list[Row]:
    return list(rows(_scored(tallies, *bands, **more)))  # type: ignore[arg-type]  # passed on as they are


def _verdicts(tallies: Tallies, *bands: Band, **more: object) -> dict[tuple[str, str], Verdict]:
    return {(row.what, row.cell): row.verdict for row in _rows(tallies, *bands, **more)}


IDLE_BAR = "session timeouts, members that commit when idle"
OTHERS = "session timeouts, others under traffic"
HEALTHY = ("warnings about healthy groups", "all")


def test_every_family_has_one_cell_of_each_thing_that_is_judged() -> None:
    suffixes = ("", MANUAL, IDLE, f"{MANUAL}{IDLE}")
    families = [*(f"{name}{suffix}" for name in FAMILIES for suffix in suffixes), "connect-sinks"]
    for label in {bar.label for bar in BARS}:
        for family in families:
            assert len([bar for bar in BARS if bar.label == label and bar.cell(family)]) == 1


def test_who_commits_by_hand_is_not_taken_for_one_that_commits_when_idle() -> None:
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


def test_the_assignors_of_java_are_one_cell() -> None:
    tallies = {(SESSION, family): Tally(30, 30, 30, 30) for family in ("java-range", "java-sticky")}
    assert _verdicts(tallies)[IDLE_BAR, "java"] == Verdict.REACHED


def test_a_cell_is_held_to_its_own_recall_and_precision() -> None:
    exact = {(SESSION, "aiokafka"): Tally(100, 95, 100, 97), (SESSION, "confluent"): Tally(100, 85, 100, 95)}
    assert _verdicts(exact)[IDLE_BAR, "aiokafka"] == _verdicts(exact)[OTHERS, "confluent"] == Verdict.REACHED
    recall = {(SESSION, "aiokafka"): Tally(100, 94, 100, 97), (SESSION, "confluent"): Tally(100, 84, 100, 95)}
    assert _verdicts(recall)[IDLE_BAR, "aiokafka"] == _verdicts(recall)[OTHERS, "confluent"] == Verdict.MISSED
    wrong = {(SESSION, "aiokafka"): Tally(100, 95, 100, 96), (SESSION, "confluent"): Tally(100, 85, 100, 94)}
    assert _verdicts(wrong)[IDLE_BAR, "aiokafka"] == _verdicts(wrong)[OTHERS, "confluent"] == Verdict.MISSED


def test_too_few_truths_are_no_verdict_and_are_wanted_again() -> None:
    tallies = {(POLL, "confluent"): Tally(ENOUGH - 1, 0, 9, 0), (POLL, "aiokafka"): Tally(ENOUGH, 60, 60, 60)}
    assert _verdicts(tallies)["poll intervals exceeded, others under traffic", "confluent"] == Verdict.TOO_FEW
    assert poor(tallies) == {(POLL, "confluent")}
    assert poor(tallies, enough=ENOUGH - 1) == set()


def test_what_few_scenarios_play_is_one_cell_at_the_end() -> None:
    tallies = {(SESSION, family): Tally(20, 20, 20, 20) for family in ("streams", "java-share", "java-848")}
    (bar,) = (bar for bar in BARS if bar.what == OTHERS)
    assert {name: one.facts for name, one in cells(bar, tallies).items()} == {
        "java-848": 20,
        "all others": 40,
    }


def test_one_warning_about_a_healthy_group_is_a_miss_however_short_the_time() -> None:
    assert _verdicts({}, noise=1, hours=1)[HEALTHY] == Verdict.MISSED
    assert _verdicts({}, noise=0, hours=99)[HEALTHY] == Verdict.TOO_FEW
    assert _verdicts({}, noise=0, hours=100)[HEALTHY] == Verdict.REACHED


def test_a_band_is_held_to_the_mean_of_what_it_stated() -> None:
    bands = Band(0.7, 20, 17, 0.76), Band(0.8, 20, 20, 0.89), Band(0.9, 19, 1, 0.95)
    verdicts = _verdicts({}, *bands)
    assert verdicts["calibration, 0.7 to 0.8", "all"] == Verdict.REACHED
    assert verdicts["calibration, 0.8 to 0.9", "all"] == Verdict.MISSED
    assert verdicts["calibration, 0.9 to 1.0", "all"] == Verdict.TOO_FEW


def test_delays_are_judged_where_they_were_measured() -> None:
    prompt = {("rebalance", "confluent"): Tally(60, 60, 60, 60, (1.0,) * 59 + (9.0,))}
    late = {("rebalance", "confluent"): Tally(60, 60, 60, 60, (1.0,) * 50 + (2.6,) * 10)}
    place = ("rebalances, log line to finding, p95", "all")
    assert (_verdicts(prompt)[place], _verdicts(late)[place]) == (Verdict.REACHED, Verdict.MISSED)
    assert not any("finding, p95" in row.what for row in _rows({}))
    silent = {0.9: Silences(2, 2, (3.9, 4.0)), 0.7: Silences(1, 1, (4.1,))}
    assert _verdicts({}, silences=silent)["silences, deadline to finding, p95", "all"] == Verdict.MISSED
