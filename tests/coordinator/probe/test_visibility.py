"""Groups that the brokers do not list: published once, resolved when listed, never for half an answer."""

from dataclasses import replace

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample, from_json, to_json
from tests.coordinator.support.looks import LISTED, SETTINGS, SUMMARY, look
from tests.coordinator.support.timeline import T0


def listing(at: int, *names: str) -> ProbeSample:
    return replace(look(at, seen=False), listed=frozenset(names))


def test_groups_that_the_brokers_do_not_list_are_published_once_and_again_when_they_do() -> None:
    live = Live(SETTINGS, "c1")
    alive = {"g": SUMMARY, "h": SUMMARY, "empty": {**SUMMARY, "state": "Empty"}}
    looks = [listing(60_000, "g"), listing(360_000, "g"), listing(660_000, "g", "h")]
    opened, resolved = live.on_samples(looks, alive)
    assert (opened.kind, opened.phase, opened.details["missing"]) == (Kind.MONITOR_DEGRADED, "opened", "h")
    assert (opened.details["seen"], opened.details["expected"]) == (1, 2)
    assert (resolved.phase, resolved.incident) == ("resolved", opened.id)


def test_a_listing_that_a_broker_did_not_answer_says_nothing() -> None:
    live = Live(SETTINGS, "c1")
    unanswered = replace(listing(60_000), brokers=((1, False),))
    assert live.on_samples([unanswered], {"g": SUMMARY}) == []


def test_sightings_with_members_and_listings_survive_as_json() -> None:
    seen = replace(listing(60_000, "g", "h"), members=LISTED, failures={2: "Broker 2 is away."}, took=1_700)
    assert from_json(to_json(seen)) == seen


def test_a_listing_before_any_group_is_known_says_nothing_about_what_an_earlier_one_left_out() -> None:
    live = Live(SETTINGS, "c1")
    alive = {"g": {"state": "Stable", "at": T0 - 60_000}}
    listing = replace(look(0, seen=False), listed=frozenset({"other"}))
    assert [found.phase for found in live.on_samples([listing], alive)] == ["opened"]
    after = Live(SETTINGS, "c1", live.snapshot())
    assert after.on_samples([replace(listing, at=listing.at + 1_000)], {}) == []
    assert after.snapshot()["visibility"] == live.snapshot()["visibility"]


def test_a_listing_waits_for_groups_that_are_older_than_it_and_is_compared_once() -> None:
    live = Live(SETTINGS, "c1")
    young = {"g": {"state": "Stable", "at": T0 + 60_000}}
    old = {**young, "h": {"state": "Stable", "at": T0 - 60_000}}
    heard = replace(look(0, seen=False), listed=frozenset({"other"}))
    looks = [replace(look(at, seen=False), listed=None) for at in (1_000, 2_000, 3_000)]
    assert live.on_samples([heard, looks[0]], young) == []
    (found,) = live.on_samples([looks[1]], old)
    assert (found.details["missing"], found.details["expected"]) == ("h", 1)
    assert live.on_samples([looks[2]], {**old, "i": old["h"]}) == []


def test_a_listing_is_compared_with_a_group_that_takes_the_place_of_another() -> None:
    live = Live(SETTINGS, "c1")
    young, old = {**SUMMARY, "at": T0 + 120_000}, {**SUMMARY, "at": T0 - 60_000}
    assert live.on_samples([listing(60_000, "other")], {"young": young}) == []
    (opened,) = live.on_samples([look(61_000, seen=False)], {"old": old})
    assert (opened.phase, opened.details["missing"]) == ("opened", "old")
