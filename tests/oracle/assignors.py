"""Random memberships for the assignors, ours and Kafka's, and what of the two must be equal.

Members have instance ids or not, rack ids or not, equal or unequal subscriptions, and some of them own
partitions already: none, some or all, evenly or not.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from rebalance_monitor.coordinator.assignors import ranges, round_robin, server, sticky
from rebalance_monitor.coordinator.assignors.model import Assignment, Subscriber, by_id
from tests.oracle import kafka_java

Case = dict[str, Any]
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky", "server-uniform", "server-range")
PROGRAM = kafka_java.Program("AssignorOracle", ("AssignorOracle.java",), kafka_java.RECORDS.packages)
_RACKS = ("a", "b", "c")


def cases(seed: int, number: int) -> list[Case]:
    """Give `number` random memberships, each for every assignor."""
    random = Random(seed)  # noqa: S311 - test data
    return [
        {**case, "assignor": name} for case in (_case(random) for _ in range(number)) for name in ASSIGNORS
    ]


def kafkas(given: list[Case]) -> list[Assignment]:
    """Give what Kafka's classes hand out, in the order of `given`."""
    found = kafka_java.run(PROGRAM, lines=[json.dumps(case) for case in given])
    return [{member: [(t, p) for t, p in places] for member, places in one.items()} for one in found]


def ours(case: Case) -> Assignment:
    """Give what our functions hand out."""
    members, counts = subscribers(case), case["counts"]
    match case["assignor"]:
        case "range":
            racks = {topic: [frozenset(some) for some in all_] for topic, all_ in case["racks"].items()}
            return ranges.assign(members, counts, racks)
        case "roundrobin":
            return round_robin.assign(members, counts)
        case "sticky":
            return sticky.assign(members, counts)
        case "cooperative-sticky":
            return sticky.cooperative(members, counts)
        case "server-uniform":
            return server.uniform(members, counts)
        case _:
            return ranges.assign(members, counts)


def subscribers(case: Case) -> list[Subscriber]:
    """Give the case's members as our functions take them."""
    return [
        Subscriber(
            one["id"],
            tuple(one["topics"]),
            one["instance"],
            one["rack"],
            tuple((topic, partition) for topic, partition in one["owned"]),
        )
        for one in case["members"]
    ]


def _case(random: Random) -> Case:
    counts = {f"t{index}": random.choice((1, 1, 2, 3, 3, 5, 8)) for index in range(random.randint(1, 5))}
    equal = random.random() < 0.5
    static, racked = random.choice((0, 0.5, 1)), random.choice((0, 0.5, 1))
    everything = random.sample(sorted(counts), random.randint(1, len(counts)))
    members = []
    for index in range(random.randint(1, 7)):
        topics = everything if equal else random.sample(sorted(counts), random.randint(1, len(counts)))
        members.append(
            {
                "id": f"{random.choice('pqxyz')}-{index:02d}",
                "topics": topics,
                "instance": f"i{9 - index}" if random.random() < static else None,
                "rack": random.choice(_RACKS) if random.random() < racked else None,
                "owned": [],
            }
        )
    members.sort(key=lambda one: one["id"])
    _own(random, members, counts)
    racks = {t: [random.sample(_RACKS, 2) for _ in range(n)] for t, n in counts.items()}
    return {"counts": counts, "racks": racks if random.random() < 0.5 else {}, "members": members}


def _own(random: Random, members: list[Case], counts: dict[str, int]) -> None:
    """Hand out some of the partitions beforehand, evenly or not, as an assignment that is now outdated."""
    share, few = random.choice((0, 0.3, 0.8, 1)), random.sample(members, random.randint(1, len(members)))
    for topic, number in counts.items():
        for partition in range(number):
            takers = [one for one in few if topic in one["topics"]]
            if takers and random.random() < share:
                random.choice(takers)["owned"].append([topic, partition])


def by_member(case: Case, assignment: Assignment) -> dict[str, list[tuple[str, int]]]:
    """Give every member's partitions, sorted; members that Kafka leaves out have none."""
    return {one.member_id: sorted(assignment.get(one.member_id, ())) for one in by_id(subscribers(case))}


def loads(case: Case, assignment: Assignment) -> list[int]:
    """Give how many partitions members have, sorted."""
    return sorted(len(assignment.get(one["id"], ())) for one in case["members"])


def moves(case: Case, assignment: Assignment) -> int:
    """Give how many owned partitions change their owner."""
    owner = {tuple(place): one["id"] for one in case["members"] for place in one["owned"]}
    return sum(
        owner.get(place, member) != member for member, places in assignment.items() for place in places
    )
