"""The paths of the API in one table, and the OpenAPI document that is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rebalance_monitor.dashboard.web.api import parameters
from rebalance_monitor.dashboard.web.api.schema import reference, schemas
from rebalance_monitor.dashboard.web.views import alerting_shapes, shapes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.dashboard.web.api.api import Api, Values
    from rebalance_monitor.dashboard.web.api.parameters import Parameter

VERSION = "1"
PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Path:
    """One path below `PREFIX`: what answers it, with which parameters, in which shape."""

    path: str
    what: str
    shape: type
    parameters: tuple[Parameter, ...]
    answer: Callable[[Api, Values], Any]


PATHS = (
    Path(
        "/cluster",
        "The cluster at a glance.",
        shapes.Overview,
        (parameters.AT,),
        lambda api, values: api.cluster(values),
    ),
    Path(
        "/groups",
        "Groups, searched, filtered, sorted and paged.",
        shapes.GroupsPage,
        parameters.GROUPS,
        lambda api, values: api.groups(values),
    ),
    Path(
        "/group",
        "One group: members, deadlines, assignment, generations, incidents and findings.",
        shapes.GroupDetail,
        (parameters.GROUP, parameters.AT),
        lambda api, values: api.group(values),
    ),
    Path(
        "/incidents",
        "Open incidents, the worst first, then closed ones.",
        shapes.IncidentsPage,
        parameters.INCIDENTS,
        lambda api, values: api.incidents(values),
    ),
    Path(
        "/incident",
        "One incident with its findings, what happened around it, and who is behind it.",
        shapes.IncidentDetail,
        parameters.INCIDENT,
        lambda api, values: api.incident(values),
    ),
    Path(
        "/findings",
        "Findings of the retained history, newest first.",
        shapes.FindingsPage,
        parameters.FINDINGS,
        lambda api, values: api.findings(values),
    ),
    Path(
        "/history",
        "Events of the retained history, newest first: findings that belong together are one row.",
        shapes.HistoryPage,
        parameters.FINDINGS,
        lambda api, values: api.history(values),
    ),
    Path(
        "/notified",
        "Who was notified of an incident.",
        alerting_shapes.NotifiedPage,
        parameters.NOTIFIED,
        lambda api, values: api.notified(values),
    ),
    Path(
        "/silences",
        "The silences that have not ended.",
        alerting_shapes.SilencesPage,
        parameters.SILENCES,
        lambda api, values: api.silences(values),
    ),
    Path(
        "/choices",
        "What filters can be set to.",
        alerting_shapes.Choices,
        (),
        lambda api, values: api.choices(values),
    ),
)
FROM_DISK = frozenset({"/findings", "/history", "/incident", "/notified", "/silences"})
"""Paths that may read the storage, or always do."""
EVENTS = "/events"
SILENCES = "/silences"
_EVENTS_WHAT = (
    "Server-sent events. `hello` {version}; after each batch `change` {version, now, overview, rows, "
    "removed, others} with the rows of groups that changed and whether anything about no single group was "
    "published, or `reset` {version, now, overview}: ask again."
)


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    paths: dict[str, Any] = {path.path: {"get": _operation(path)} for path in PATHS}
    paths[EVENTS] = {
        "get": {
            "summary": _EVENTS_WHAT,
            "operationId": "events",
            "parameters": [_parameter(one) for one in parameters.EVENTS],
            "responses": {
                "200": {"description": "The stream.", "content": {"text/event-stream": {}}},
                **_problems("400", *_REFUSED, "503"),
            },
        }
    }
    paths[SILENCES] |= {"post": _adding(), "delete": _expiring()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rebalance monitor",
            "version": VERSION,
            "description": (shapes.__doc__ or "").partition("\n\n")[2].strip(),
        },
        "servers": [{"url": PREFIX}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas(
                *(path.shape for path in PATHS), alerting_shapes.SilenceWanted, shapes.Problem
            ),
        },
    }


def _operation(path: Path) -> dict[str, Any]:
    content = _json(path.shape)
    return {
        "summary": path.what,
        "operationId": path.path.strip("/"),
        "parameters": [_parameter(one) for one in path.parameters],
        "responses": {
            "200": {"description": path.what, "content": content},
            **_problems("400", *_REFUSED, "404", "500", "503"),
        },
    }


def _adding() -> dict[str, Any]:
    return {
        "summary": "Add a silence; only with the token, or signed in by the proxy.",
        "operationId": "addSilence",
        "requestBody": {"required": True, "content": _json(alerting_shapes.SilenceWanted)},
        "responses": {
            "201": {"description": "The silence.", "content": _json(alerting_shapes.SilenceRow)},
            **_problems("400", *_REFUSED, "415", "500", "503"),
        },
    }


def _expiring() -> dict[str, Any]:
    return {
        "summary": "End a silence now; only with the token, or signed in by the proxy.",
        "operationId": "expireSilence",
        "parameters": [_parameter(one) for one in parameters.SILENCE],
        "responses": {
            "200": {"description": "The silence as it ended.", "content": _json(alerting_shapes.SilenceRow)},
            **_problems("400", *_REFUSED, "500", "503"),
        },
    }


def _json(shape: type) -> dict[str, Any]:
    return {"application/json": {"schema": reference(shape.__name__)}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.what,
        "required": parameter.required,
        "schema": dict(parameter.schema),
    }


_WHY = {
    "400": "A parameter or the body is wrong.",
    "401": "The bearer token is missing or wrong.",
    "403": "The proxy has not signed the reader in, or this reader may not change anything.",
    "404": "Not known.",
    "415": "The content type of the body is not JSON.",
    "421": "The monitor is not served under the name that was asked.",
    "500": "The monitor could not answer; its log says why.",
    "503": "Not now: try again.",
}
# What access.py answers, whatever the path.
_REFUSED = ("401", "403", "421")


def _problems(*statuses: str) -> dict[str, Any]:
    content = _json(shapes.Problem)
    return {status: {"description": _WHY[status], "content": content} for status in statuses}
