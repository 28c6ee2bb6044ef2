import pytest
import yaml

from rebalance_monitor.lab.scenario.faults import VERBS
from rebalance_monitor.lab.scenario.model import ScenarioError
from rebalance_monitor.lab.scenario.scenario import FOLDER, load, names, parse, varied
from rebalance_monitor.lab.workers.flags import Flags


@pytest.mark.parametrize("name", names())
def test_every_scenario_file_can_be_read_and_is_coherent(name: str) -> None:
    scenario = load(name)
    assert scenario.about.endswith(".")
    assert all(step.verb in VERBS and step.at < scenario.end for step in scenario.steps)
    times = {step.at for step in scenario.steps}
    for wanted in scenario.expect:
        assert any(abs(at - wanted.after) < 0.01 for at in times), wanted
        assert wanted.member in {"", "leader", *scenario.members}


@pytest.mark.parametrize("name", names())
def test_a_scenario_file_is_at_most_one_page(name: str) -> None:
    assert len((FOLDER / f"{name}.yaml").read_text().splitlines()) <= 40


def test_an_unknown_key_and_an_unknown_verb_are_refused() -> None:
    with pytest.raises(ScenarioError, match="unknown keys"):
        parse("x", {"end": 1, "surprise": 1})
    with pytest.raises(ScenarioError, match="exactly one verb"):
        parse("x", {"end": 1, "steps": [{"at": 0, "explode": "a"}]})


def test_an_absent_scenario_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(ScenarioError, match="sigkill"):
        load("no-such")


def test_a_crash_loop_is_starts_and_kills_in_turn() -> None:
    raw = yaml.safe_load(
        "{members: [d], end: 30, steps: [{at: 2, crash_loop: d, times: 2, every: 5, life: 1}]}"
    )
    assert [(step.at, step.verb) for step in parse("x", raw).steps] == [
        (2, "start"),
        (3, "kill"),
        (7, "start"),
        (8, "kill"),
    ]


@pytest.mark.parametrize("seed", range(1, 12))
@pytest.mark.parametrize("name", ["slow-processing", "sigkill", "flapping-slow"])
def test_a_seed_varies_times_but_keeps_what_the_scenario_means(name: str, seed: int) -> None:
    plain, other = load(name), varied(load(name), seed)
    assert other.session_ms != plain.session_ms
    assert other.poll_ms * plain.session_ms >= (other.session_ms - 1) * plain.poll_ms
    assert [step.verb for step in other.steps] == [step.verb for step in plain.steps]
    assert [step.at for step in other.steps] == sorted(step.at for step in other.steps)
    assert other.end > other.steps[-1].at
    for step in other.steps:
        if step.verb == "stall":
            assert float(str(step.options["seconds"])) * 1000 > other.poll_ms * 1.2


@pytest.mark.parametrize("seed", range(1, 12))
def test_at_the_clients_defaults_every_group_has_time_to_lose_its_members(seed: int) -> None:
    """However the seed varies the times: a killed member expires before the next one stalls long enough."""
    scenario = varied(load("many-at-defaults"), seed)
    flags = Flags("b", "g", "t", groups=15, session_ms=45_000, poll_ms=300_000)
    assert {"session_ms": "45000", "poll_ms": "300000"}.items() <= scenario.settings.items()
    _, killed, stalled = scenario.steps
    sessions, polls = zip(*((one.session_ms, one.poll_ms) for one in flags.each()), strict=True)
    assert killed.at + max(sessions) / 1000 + 10 < stalled.at
    assert float(str(stalled.options["seconds"])) > max(polls) / 1000 + 5
    assert stalled.at + float(str(stalled.options["seconds"])) < scenario.end


@pytest.mark.parametrize("seed", range(12))
def test_a_client_that_closes_in_another_s_batch_is_silent_longer_than_its_session(
    seed: int,
) -> None:
    """However the seed varies the times: the batch ends a session and more after the close, and in time."""
    scenario = varied(load("close-in-batch"), seed, grow=True)
    assert scenario.members == ("a", "b")
    _, stalled, closed, _, again, last, back = scenario.steps
    for batch, close in ((stalled, closed), (again, last)):
        seconds = float(str(batch.options["seconds"]))
        assert batch.at < close.at < batch.at + seconds - scenario.session_ms / 1000 - 1
        assert seconds * 1000 < int(scenario.settings["poll_ms"])
    assert last.at < back.at < again.at + float(str(again.options["seconds"]))


def test_the_same_seed_gives_the_same_scenario_and_seed_zero_changes_nothing() -> None:
    plain = load("sigkill")
    assert varied(plain, 7) == varied(plain, 7)
    assert varied(plain, 0) == plain


def test_some_seeds_let_more_members_stand_by_where_nothing_is_done_to_all() -> None:
    plain = load("sigkill")
    sizes = {len(varied(plain, seed, grow=True).members) for seed in range(1, 20)}
    assert sizes == {3, 4, 5}
    for seed in range(1, 20):
        grown = varied(plain, seed, grow=True)
        assert set(grown.steps[0].who) == set(grown.members)
        assert grown.steps[1].who == plain.steps[1].who
        assert varied(load("offsets-reset"), seed, grow=True).members == load("offsets-reset").members


def test_a_slower_pace_stretches_times_and_time_outs_alike() -> None:
    plain, slow = varied(load("static-restart"), 3), varied(load("static-restart"), 3, 7.5)
    assert slow.session_ms == pytest.approx(plain.session_ms * 7.5, rel=0.01)
    assert int(slow.settings["session_ms"]) == 7.5 * int(plain.settings["session_ms"])
    assert slow.steps[1].at == pytest.approx(plain.steps[1].at * 7.5, rel=0.1)
