"""The API asked as clients ask it: over a replay, each answer held against the document's schema."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from rebalance_monitor.dashboard.tables.findings_table import write_findings
from rebalance_monitor.dashboard.web.api import openapi
from rebalance_monitor.dashboard.web.past.table_past import TablePast
from tests.dashboard.web import known
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

Answer = Any


@pytest.fixture(scope="module", name="real")
def replay_client() -> Iterator[httpx.Client]:
    with served(known.snapshot_of(known.replayed()), live=False) as client:
        yield client


def valid(path: str, body: Answer) -> Answer:
    """Return the body once the document's schema has taken it."""
    validator(path).validate(body)
    return body


@cache
def validator(path: str) -> Draft202012Validator:
    document = openapi.document()
    shape = next(one.shape for one in openapi.PATHS if one.path == path)
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["$ref"].endswith(shape.__name__)
    return Draft202012Validator({**schema, "components": document["components"]})


def ask(client: httpx.Client, path: str, **values: str | int) -> Answer:
    answer = client.get(openapi.PREFIX + path, params=values)
    assert answer.status_code == 200, answer.text
    return valid(path, answer.json())


def table(folder: Path) -> TablePast:
    """Write the replay's findings as a job does, in batches."""
    replayed = known.replayed()
    of_groups = (finding for view in replayed.groups.values() for finding in view.recent)
    told = sorted((*of_groups, *replayed.others), key=lambda finding: finding.at)
    for number in range(0, len(told), 60):
        write_findings(folder, told[number : number + 60], "0b31a4ad-56b8", number)
    return TablePast(folder)
