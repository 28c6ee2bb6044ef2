"""The golden files of messages: what each kind of finding says in each medium.

`python -m tests.alerts.golden_files` writes them again; read the difference before committing it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.gallery import examples, gallery
from rebalance_monitor.alerts.messages.message import message_of
from rebalance_monitor.alerts.messages.thread import message_of_thread, news_of
from rebalance_monitor.alerts.render import html, markdown, plain, slack
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.alerts.messages.blocks import Message

FOLDER = Path(__file__).parent / "golden"


def messages() -> dict[str, Message]:
    """Return every message by its name: a kind, a kind's end, or a state of a thread."""
    found = {kind.value: message_of(examples.example(kind), gallery.LINKS) for kind in Kind}
    for kind in Kind:
        if KINDS[kind].phases:
            over = examples.example(kind, "resolved")
            found[f"{kind.value}.resolved"] = message_of(over, gallery.LINKS)
    for phase, name in (("opened", "roll_up"), ("resolved", "roll_up.resolved")):
        found[f"session_timeout.{name}"] = message_of(examples.roll_up(phase), gallery.LINKS)
    return found | _threads()


def _threads() -> dict[str, Message]:
    at, tally, links = examples.AT, gallery.TALLY, gallery.LINKS
    opened = message_of_thread(gallery.opening(), at, tally, links)
    return {
        "thread.closed": message_of_thread(gallery.closing(), at, tally, links),
        "thread.news": news_of((examples.example(Kind.REBALANCE),), opened),
        "thread.of_three": message_of_thread(gallery.opening(3), at, tally, links),
        "thread.of_three.closed": message_of_thread(gallery.closing(3), at, tally, links),
    }


def _slack(message: Message) -> str:
    shown = {"message": slack.render(message), "reply": slack.render_reply(message)}
    return json.dumps(shown, ensure_ascii=False, indent=1) + "\n"


RENDERERS: dict[str, Callable[[Message], str]] = {
    "txt": plain.render,
    "md": markdown.render,
    "html": html.render,
    "slack.json": _slack,
}


def files() -> dict[str, str]:
    """Return the text of every golden file by its name."""
    made = messages()
    return {f"{name}.{end}": render(made[name]) for name in made for end, render in RENDERERS.items()}


def main() -> None:
    """Write them all and take away those that are no more."""
    FOLDER.mkdir(exist_ok=True)
    expected = files()
    for path in FOLDER.iterdir():
        if path.name not in expected:
            path.unlink()
    for name, text in expected.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
