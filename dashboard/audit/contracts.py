"""The contracts: ONE table of expectations, by suite. A suite is checked on the frame of the same name.

Names of expectations and their arguments are great-expectations' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rebalance_monitor.coordinator.findings.finding import SCHEMA
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.lag.committing import COMMITS_ONLY
from rebalance_monitor.dashboard.tables.groups_table import SCHEMA as GROUPS_SCHEMA

RECORDS, FINDINGS, GROUPS = "records", "findings", "groups"
EVIDENCE = ("read", "derived", "suspected")
GROUP_TYPES = ("", "classic", "consumer", "share", "streams", COMMITS_ONLY)
STATES = (
    "",
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
    "Unknown",
)
READABLE = 0.99
"""Share of the records of a sample that must be readable."""


@dataclass(frozen=True, slots=True)
class Contract:
    """One expectation: great-expectations' class, its arguments, and what it means in words."""

    suite: str
    expectation: str
    arguments: dict[str, Any]
    means: str


def _is(suite: str, column: str, values: object, means: str, **more: object) -> Contract:
    arguments = {"column": column, "value_set": list(values), **more}  # type: ignore[call-overload]  # any iterable
    return Contract(suite, "ExpectColumnValuesToBeInSet", arguments, means)


def _between(suite: str, column: str, low: float | None, high: float | None, means: str) -> Contract:
    arguments = {"column": column, "min_value": low, "max_value": high}
    return Contract(suite, "ExpectColumnValuesToBeBetween", arguments, means)


def _equal(suite: str, one: str, other: str, means: str) -> Contract:
    arguments = {"column_A": one, "column_B": other, "ignore_row_if": "either_value_is_missing"}
    return Contract(suite, "ExpectColumnPairValuesToBeEqual", arguments, means)


def _unique(suite: str, column: str, means: str) -> Contract:
    return Contract(suite, "ExpectColumnValuesToBeUnique", {"column": column}, means)


def _given(suite: str, column: str, means: str) -> Contract:
    return Contract(suite, "ExpectColumnValuesToNotBeNull", {"column": column}, means)


CONTRACTS = (
    Contract(
        RECORDS,
        "ExpectCompoundColumnsToBeUnique",
        {"column_list": ["partition", "offset"]},
        "no record is read twice",
    ),
    _is(RECORDS, "reason", [""], f"at least {READABLE:.0%} of the records are readable", mostly=READABLE),
    _given(RECORDS, "type", "every key has a type"),
    _equal(
        RECORDS,
        "partition",
        "partition_of_group",
        "a record lies in the partition of its group's Java hash, modulo the number of partitions",
    ),
    _between(RECORDS, "timestamp", 0, None, "records carry a time"),
    _between(RECORDS, "generation", -1, None, "generations and epochs are never below -1"),
    _between(RECORDS, "committed", -1, None, "committed offsets are never below -1"),
    _unique(FINDINGS, "id", "ids are unique"),
    Contract(
        FINDINGS,
        "ExpectColumnValuesToMatchRegex",
        {"column": "id", "regex": "^[0-9a-f]{16}$"},
        "ids are 16 hex digits",
    ),
    _between(FINDINGS, "schema", 1, SCHEMA, "findings have a schema version that this release knows"),
    _is(FINDINGS, "kind", [kind.value for kind in Kind], "kinds are from the list"),
    _is(FINDINGS, "scope", [scope.value for scope in Scope], "scopes are from the list"),
    _is(FINDINGS, "severity", [severity.value for severity in Severity], "severities are from the list"),
    _is(FINDINGS, "evidence", EVIDENCE, "evidence is from the list"),
    _between(FINDINGS, "confidence", 0, 1, "confidences lie in [0, 1]"),
    _between(FINDINGS, "least_confidence", 0, 1, "confidences of causes lie in [0, 1]"),
    _between(FINDINGS, "most_confidence", 0, 1, "confidences of causes lie in [0, 1]"),
    _is(FINDINGS, "strange_causes", [""], "causes are from the list"),
    _is(FINDINGS, "strange_details", [""], "details have only the keys of their kind"),
    _is(FINDINGS, "phase_fits", [True], "kinds with phases have one, others have none"),
    _is(FINDINGS, "incident_fits", [True], "what has a phase belongs to an incident"),
    _is(
        FINDINGS, "generation_grows", [True], "generations grow per group, until it is removed or begins anew"
    ),
    _equal(FINDINGS, "shard", "shard_of_group", "a finding's shard is the Java hash of its group"),
    _equal(FINDINGS, "date", "date_of_at", "a row lies in the folder of its own date"),
    _between(FINDINGS, "detected_at", 0, None, "every finding has been stamped"),
    _unique(GROUPS, "group", "every group stands there once"),
    _is(GROUPS, "schema", [GROUPS_SCHEMA], "the table has the schema version of this release"),
    _is(GROUPS, "group_type", GROUP_TYPES, "group types are from the list"),
    _is(GROUPS, "state", STATES, "states are from the list"),
    _between(GROUPS, "generation", 0, None, "generations are never below zero"),
    _between(GROUPS, "members", 0, None, "members are never below zero"),
    Contract(
        GROUPS,
        "ExpectColumnPairValuesAToBeGreaterThanB",
        {
            "column_A": "members",
            "column_B": "members_listed",
            "or_equal": True,
            "ignore_row_if": "either_value_is_missing",
        },
        "no more members are listed than there are",
    ),
    _is(GROUPS, "strange_causes", [""], "causes are from the list"),
    _is(GROUPS, "strange_incidents", [""], "open incidents are of kinds that have phases"),
)
