"""The page's own files, served from memory, and the page with its first answers inside.

Scripts and styles have the hash of all of them in their address, so that a browser keeps them until another
version of the monitor serves others. A reader with access finds in the page what it is going to ask first:
rows stand as soon as the scripts run. The page begins before those answers are made, so that styles and
scripts load meanwhile. Answers lie in a data block, which no browser runs, with every `<` escaped.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from rebalance_monitor.dashboard.web.api import openapi, parameters
from rebalance_monitor.dashboard.web.api.api import NotFound
from rebalance_monitor.dashboard.web.api.parameters import BadRequest

if TYPE_CHECKING:
    from asyncio import Semaphore
    from collections.abc import AsyncIterator, Callable, Mapping

    from starlette.requests import Request

    from rebalance_monitor.dashboard.web.api.api import Api

log = structlog.get_logger()
STATIC = Path(__file__).parents[1] / "static"
KEEP = {"cache-control": "public, max-age=31536000, immutable"}
ASK_AGAIN = {"cache-control": "no-cache"}
MAX_DIGITS = 9
PAGE_ROWS = 100
"""Rows of the table of groups, as cluster.js asks for them."""
# Not asked of the machine, whose own list may say otherwise: browsers insist on these.
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
# In the order in which cluster.js names them: its question is found by its address.
_FILTERS = {
    **dict.fromkeys(("search", "state", "type", "trouble", "severity", "cause", "team"), ""),
    "sort": "trouble",
    "order": "asc",
}
_ANSWERS = {path.path.strip("/"): path for path in openapi.PATHS}

Question = tuple[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Files:
    """The page's files by name, and the version that their hash makes."""

    files: Mapping[str, bytes]
    version: str

    def page(self) -> tuple[bytes, bytes]:
        """Return index.html up to where answers go, and the rest."""
        text = self.files["index.html"].decode().replace("static/", f"static/{self.version}/")
        head, mark, tail = text.rpartition("</body>")
        return head.encode(), (mark + tail).encode()

    async def serve(self, request: Request) -> Response:
        """Answer `/static/VERSION/NAME`, or `/static/NAME` for a caller that knows no version."""
        version, _, name = request.path_params["path"].rpartition("/")
        content = self.files.get(name) if version in {"", self.version} else None
        if content is None:
            return PlainTextResponse("there is no such file\n", 404)
        return Response(content, media_type=_TYPES[Path(name).suffix], headers=KEEP if version else ASK_AGAIN)

    async def runbooks(self, request: Request) -> Response:
        """Answer `/runbooks/`, whose sections alerts link to; it names no group, so everybody may read it."""
        if not request.url.path.endswith("/"):
            # Relative, so that it holds behind a proxy's own prefix.
            return Response(status_code=307, headers={"location": "runbooks/"})
        text = self.files["runbooks.html"].replace(b"../static/", f"../static/{self.version}/".encode())
        return Response(text, media_type="text/html", headers=ASK_AGAIN)


def load_files() -> Files:
    """Read the page's files. Raises OSError."""
    files = {path.name: path.read_bytes() for path in sorted(STATIC.iterdir()) if path.suffix in _TYPES}
    whole = b"".join(name.encode() + b"\0" + content for name, content in files.items())
    return Files(files, sha256(whole).hexdigest()[:12])


class Shell:
    """Serves the page.

    may_read: whether a request may read anything. history: how many may read the past at a time.
    """

    def __init__(
        self, api: Api, files: Files, may_read: Callable[[Request], bool], history: Semaphore
    ) -> None:
        self._api = api
        self._history = history
        self._head, self._tail = files.page()
        self._may_read = may_read

    async def serve(self, request: Request) -> Response:
        """Answer `/`."""
        questions = first_questions(request.query_params) if self._may_read(request) else []
        headers = {"cache-control": "no-store" if questions else "no-cache"}
        return StreamingResponse(self._parts(questions), media_type="text/html", headers=headers)

    async def _parts(self, questions: list[Question]) -> AsyncIterator[bytes]:
        yield self._head
        if questions:
            is_past = any(name == "incident" for name, _ in questions)
            async with self._history if is_past else nullcontext():
                answers = await run_in_threadpool(first_answers, self._api, questions)
            yield answers
        yield self._tail


def first_questions(query: Mapping[str, str]) -> list[Question]:
    """Return what the page at this address asks first: paths below `/api/v1`, with their parameters."""
    if "at" in query:
        # The past is read from disk: the page shows that it waits.
        return []
    questions: list[Question] = [("cluster", {})]
    if "group" in query:
        questions.append(("group", {"group": query["group"]}))
    elif "incident" in query:
        questions.append(("incident", {"id": query["incident"]}))
    elif "view" not in query:
        page = query.get("page", "1")
        offset = (max(1, int(page)) - 1) * PAGE_ROWS if page.isdecimal() and len(page) < MAX_DIGITS else 0
        given = {name: query.get(name) or usual for name, usual in _FILTERS.items()}
        questions.append(("groups", {**given, "offset": str(offset), "limit": str(PAGE_ROWS)}))
    return questions


def first_answers(api: Api, questions: list[Question]) -> bytes:
    """Return the data block with the answers; what has none is left for the page to ask."""
    found = []
    for name, given in questions:
        path = _ANSWERS[name]
        asked = {key: value for key, value in given.items() if value}
        try:
            found.append([name, asked, path.answer(api, parameters.read(path.parameters, asked))])
        except (BadRequest, NotFound, OSError) as error:
            log.debug("the page is to ask by itself", path=name, why=str(error))
        except Exception as error:  # noqa: BLE001 - half a page would help nobody: it asks, and says what is wrong
            log.error("a request failed", why=repr(error))  # noqa: TRY400 - as app.py logs what fails
    return b'<script type="application/json" id="first">' + _in_html(found) + b"</script>\n"


def _in_html(value: Any) -> bytes:  # noqa: ANN401 - anything JSON
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").encode("utf-8", "backslashreplace")
