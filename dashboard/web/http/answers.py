"""The API's answers for programs on a terminal: over HTTP from a running monitor, or from one in-process.

Both give the same JSON (dashboard/web/views/shapes.py). `Unanswered` says what to do about it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.secrets import without_login
from rebalance_monitor.dashboard.web.api import openapi, parameters
from rebalance_monitor.dashboard.web.api.api import NotFound
from rebalance_monitor.dashboard.web.api.parameters import BadRequest

if TYPE_CHECKING:
    import httpx

    from rebalance_monitor.dashboard.web.api.api import Api

Answer = Any
Values = dict[str, Any]
TIMEOUT_S = 10.0
PAGE = 500


class Unanswered(Exception):  # noqa: N818 - not always an error: a group may be gone
    """There is no answer; `status` is HTTP's, 0 where no server answered."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


class Answers(Protocol):
    """A source of answers; blocks for network or disk."""

    where: str

    def ask(self, path: str, **values: str | int | None) -> Answer:
        """Return the answer of one path of the API (`/groups`). Raises Unanswered."""


class LocalAnswers:
    """Answers of an `Api` in this process."""

    def __init__(self, api: Api, where: str) -> None:
        self._api = api
        self._paths = {path.path: path for path in openapi.PATHS}
        self.where = where

    def ask(self, path: str, **values: str | int | None) -> Answer:
        """Return the answer of one path. Raises Unanswered."""
        found = self._paths[path]
        given = {name: str(value) for name, value in values.items() if value is not None}
        try:
            return found.answer(self._api, parameters.read(found.parameters, given))
        except BadRequest as error:
            raise Unanswered(str(error), 400) from error
        except NotFound as error:
            raise Unanswered(str(error), 404) from error
        except OSError as error:
            raise Unanswered(f"the tables cannot be read: {error}", 503) from error


class HttpAnswers:
    """Answers of a running monitor; `token` where it wants one. Raises ConfigError for what is no address."""

    def __init__(self, url: str, token: str | None = None) -> None:
        import httpx  # noqa: PLC0415 - half as long a start for who needs no network

        headers = httpx.Headers({"authorization": f"Bearer {token}"} if token else {}, encoding="utf-8")
        try:
            base = httpx.URL(url.rstrip("/"))
        except httpx.InvalidURL as error:
            why = f"{without_login(url)!r} is no address of a monitor"
            raise ConfigError(f"{why}: {without_login(str(error))}") from None
        # What the environment says of proxies is not meant for this machine.
        env = base.host not in {"localhost", "127.0.0.1", "::1"}
        try:
            self._client = httpx.Client(base_url=base, headers=headers, timeout=TIMEOUT_S, trust_env=env)
        except (httpx.InvalidURL, ImportError, ValueError) as error:
            # The library's words for a proxy hold its address, and that its password.
            why = str(error) if isinstance(error, ImportError) else "its address is malformed"
            raise ConfigError(f"the proxy that the environment names cannot be used: {why}") from None
        self._errors = httpx.HTTPError
        self.where = without_login(url)

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()

    def ask(self, path: str, **values: str | int | None) -> Answer:
        """Return the answer of one path. Raises Unanswered."""
        given = {name: value for name, value in values.items() if value is not None}
        try:
            answer: httpx.Response = self._client.get(openapi.PREFIX + path, params=given)
            body = answer.json()
        except (self._errors, ValueError) as error:
            why = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".")
            raise Unanswered(f"no monitor answers at {self.where}: {why}", 0) from error
        if answer.status_code != 200:  # noqa: PLR2004 - HTTP's own number
            said = body.get("error") if isinstance(body, dict) else None
            raise Unanswered(str(said or answer.reason_phrase), answer.status_code)
        return body


def all_groups(answers: Answers, limit: int, **values: str | int | None) -> list[Answer]:
    """Return up to `limit` rows of groups, page by page. Raises Unanswered."""
    found: list[Answer] = []
    while len(found) < limit:
        size = min(PAGE, limit - len(found))
        page = answers.ask("/groups", offset=len(found), limit=size, **values)
        found += page["rows"]
        if len(page["rows"]) < size:
            break
    return found


def all_findings(answers: Answers, limit: int, **values: str | int | None) -> list[Answer]:
    """Return up to `limit` findings, newest first, page by page. Raises Unanswered."""
    found: list[Answer] = []
    before: str | None = None
    while len(found) < limit:
        size = min(PAGE, limit - len(found))
        page = answers.ask("/findings", before=before, limit=size, **values)
        found += page["rows"]
        before = page["next"]
        if before is None:
            break
    return found
