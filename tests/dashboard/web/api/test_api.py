"""The API: groups, members and incidents are served as they were found, the troubled ones first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.finding import MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope
from rebalance_monitor.coordinator.findings.massed import LISTED
from rebalance_monitor.coordinator.findings.names import MAX_BYTES
from rebalance_monitor.dashboard.view.snapshot import Known, Snapshot, Update
from rebalance_monitor.dashboard.web.past.past import MemoryPast, Wanted
from rebalance_monitor.dashboard.web.views.budget import BYTES
from tests.dashboard.web import known
from tests.dashboard.web.asking import ask, replay_client  # noqa: F401 - the fixture `real`
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    import httpx


def test_storms_stand_on_top_and_the_hour_adds_up(real: httpx.Client) -> None:
    seen = ask(real, "/cluster")
    assert seen["incidents"][0]["kind"] == "storm"
    assert sum(seen["minutes"]) == sum(one["count"] for one in seen["causes"])
    assert sum(one["count"] for one in seen["states"]) == seen["groups"]
    assert ask(real, "/groups")["rows"][0]["trouble"] == "storm"


def test_groups_are_searched_filtered_sorted_and_paged(real: httpx.Client) -> None:
    everything = ask(real, "/groups")["rows"]
    assert {row["group"] for row in ask(real, "/groups", search="CRASH")["rows"]} == {
        row["group"] for row in everything if "crash" in row["group"]
    }
    by_host = ask(real, "/groups", search="127.0.0.1")["matched"]
    assert by_host <= len(everything)
    assert all(row["trouble"] == "storm" for row in ask(real, "/groups", trouble="storm")["rows"])
    assert all(row["state"] == "Empty" for row in ask(real, "/groups", state="Empty")["rows"])
    names = [row["group"] for row in ask(real, "/groups", sort="group")["rows"]]
    assert names == sorted(names)
    turned = [row["group"] for row in ask(real, "/groups", sort="group", order="desc")["rows"]]
    assert turned == names[::-1]
    pages = [ask(real, "/groups", sort="group", offset=at, limit=5)["rows"] for at in range(0, len(names), 5)]
    assert [row["group"] for page in pages for row in page] == names


def test_a_group_page_has_its_generations_members_and_causes(real: httpx.Client) -> None:
    seen = ask(real, "/group", group=known.STORMY)
    columns, lanes = seen["timeline"]["columns"], seen["timeline"]["lanes"]
    generations = [column["generation"] for column in columns]
    assert generations == sorted(generations)
    assert any(cause["cause"] == "session_timeout" for column in columns for cause in column["causes"])
    flapping = next(lane for lane in lanes if lane["label"].endswith("-d"))
    assert len({cell["member_id"] for cell in flapping["cells"]}) > 3
    assert {breach["kind"] for breach in flapping["breaches"]} >= {"session_timeout"}


def test_an_incident_names_who_is_behind_it(real: httpx.Client) -> None:
    storm = next(row for row in ask(real, "/incidents", kind="storm")["rows"] if row["group"] == known.STORMY)
    seen = ask(real, "/incident", id=storm["id"])
    assert seen["offenders"][0]["client_id"].endswith("-d")
    assert seen["findings"][0]["id"] == storm["id"]


def test_an_incident_has_a_worst_offender_from_a_third_of_its_rebalances_on(real: httpx.Client) -> None:
    rows = [row for row in ask(real, "/incidents", kind="storm")["rows"] if "worst_share" in row["details"]]
    assert rows
    for row in rows:
        details = row["details"]
        named = row["worst"] and (row["worst"]["client_id"], row["worst"]["share"])
        is_main = details["worst_share"] >= 1 / 3
        assert named == ((details["worst_client"], details["worst_share"]) if is_main else None)


def test_ready_only_once_history_is_read() -> None:
    snapshot = Snapshot("lab")
    with served(snapshot) as client:
        assert (client.get("/readyz").status_code, client.get("/healthz").status_code) == (503, 200)
        snapshot.apply(Update(shards=[known.shard(catching_up=True)], now=1, wall=1))
        answer = client.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "not ready: 1 of 1 partitions still read history\n")
        snapshot.apply(Update(shards=[known.shard()], now=2, wall=2))
        assert client.get("/readyz").status_code == 200
        assert client.get("/metrics").text == "# EOF\n"


def test_not_ready_while_no_alert_can_be_sent() -> None:
    snapshot, held_up = Snapshot("lab"), "no alert can be told"
    snapshot.apply(Update(shards=[known.shard()], now=2, wall=2))
    with served(snapshot, held_up=lambda: held_up) as client:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "not ready: no alert can be told\n")
        assert client.get("/healthz").status_code == 200
        held_up = ""
        assert client.get("/readyz").status_code == 200


def test_an_incident_about_no_group_has_its_page() -> None:
    identity = "feedfacefeedface"
    told = replace(
        known.rebalance("none", 1, known.T0, id=identity, incident=identity, phase="opened"),
        kind=Kind.MONITOR_DEGRADED,
        scope=Scope.MONITOR,
        group=None,
    )
    snapshot = Snapshot("lab")
    snapshot.apply(Update(findings=[told], now=known.T0, wall=known.T0))
    with served(snapshot) as client:
        (row,) = ask(client, "/incidents")["rows"]
        seen = ask(client, "/incident", id=row["id"])
        assert ask(client, "/cluster")["incidents_open"] == 1
    assert (seen["incident"]["scope"], len(seen["findings"])) == ("monitor", 1)


def test_members_that_count_down_are_reported_with_their_deadline() -> None:
    listed = [known.member("g", 0), known.member("g", 1, deadline=known.T0 + 9_000)]
    update = Update(groups={"g": known.summary("g", member_list=listed)}, now=known.T0, wall=known.T0)
    with served(known.snapshot_of(Known().after(update))) as client:
        seen = ask(client, "/group", group="g")
    assert seen["deadlines"] == [{"what": "session", "at": known.T0 + 9_000, "who": "g-c1"}]
    assert seen["spread"] == {"most": 3, "least": 3, "idle": 0, "partitions": 6}


def test_a_crowd_of_groups_is_paged() -> None:
    with served(known.snapshot_of(known.crowd(2_000))) as client:
        assert ask(client, "/groups", trouble="storm")["matched"] == 20
        page = ask(client, "/groups", limit=500)
    assert (page["total"], len(page["rows"])) == (2_000, 500)


def test_answers_are_bounded_in_bytes_and_findings_go_on_at_the_next_page() -> None:
    snapshot = Snapshot("lab")
    long = "x" * MAX_BYTES
    crowd = tuple(
        MemberEntry(f"{long}{n}", long, long, long, host_is_stale=False, role="left") for n in range(LISTED)
    )
    told = [known.rebalance("g", n, known.T0 + n, members=crowd) for n in range(100)]
    storms = [f"{number:016x}" for number in range(60)]
    told += [replace(known.storm("g", known.T0), id=one, incident=one, members=crowd) for one in storms]
    snapshot.apply(Update(findings=told, now=known.T0, wall=known.T0))
    with served(snapshot) as client:
        for path in (
            "/group?group=g",
            "/findings?limit=500",
            "/incidents?limit=500",
            "/incident?id=" + "0" * 16,
        ):
            assert len(client.get(f"/api/v1{path}").content) < 4 * BYTES, path
        seen, before = [], None
        while before is not None or not seen:
            page = ask(client, "/findings", limit=500, **({"before": before} if before else {}))
            seen += [row["id"] for row in page["rows"]]
            before = page["next"]
        assert len(seen) == len(set(seen)) == len(MemoryPast(snapshot).find(Wanted(limit=1_000)))
