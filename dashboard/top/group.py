"""One group on a terminal: what it is, members with their deadlines, generations with their causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from rebalance_monitor.coordinator.findings.wording import counted
from rebalance_monitor.dashboard.top.cells import (
    GENERATION_COLUMNS,
    MEMBER_COLUMNS,
    TONES,
    duration,
    generation_cells,
    member_cells,
    plain,
)
from rebalance_monitor.dashboard.web.http.answers import Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.text import Text
    from textual.app import ComposeResult

    from rebalance_monitor.dashboard.web.http.answers import Answers


class GroupScreen(Screen[None]):
    """The screen of one group, refreshed every `every_s` seconds."""

    CSS = """
    GroupScreen Static { padding: 0 1; height: auto; }
    GroupScreen .title { color: $text-muted; padding: 1 1 0 1; }
    #members { height: auto; max-height: 40%; }
    #generations { height: 1fr; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,backspace,q", "app.pop_screen", "Back"),
        Binding("tab", "app.focus_next", "Next table", show=False),
    ]

    def __init__(self, answers: Answers, group: str, every_s: float) -> None:
        super().__init__()
        self._answers = answers
        self._group = group
        self._every_s = every_s

    def compose(self) -> ComposeResult:
        """Give the widgets."""
        yield Static(id="about")
        yield Static("Members", classes="title")
        yield DataTable[Any](id="members", cursor_type="none")
        yield Static("Generations", classes="title")
        yield DataTable[Any](id="generations", cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to refresh."""
        self._table("members").add_columns(*MEMBER_COLUMNS)
        self._table("generations").add_columns(*GENERATION_COLUMNS)
        self._table("generations").focus()
        self.refresh_view()
        self.set_interval(self._every_s, self.refresh_view)

    @work(thread=True, exclusive=True)
    def refresh_view(self) -> None:
        """Ask for the group."""
        try:
            seen = self._answers.ask("/group", group=self._group)
        except Unanswered as error:
            self.app.call_from_thread(self._about, plain(f"{self._group}: {error}"))
            return
        self.app.call_from_thread(self._show, seen)

    def _show(self, seen: dict[str, Any]) -> None:
        self._about(about(seen))
        self._fill("members", seen["members"], member_cells, seen["now"])
        self._fill("generations", seen["timeline"]["columns"][::-1], generation_cells, seen["now"])

    def _fill(
        self,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        cells: Callable[[Mapping[str, Any], int], tuple[Text, ...]],
        now: int,
    ) -> None:
        table = self._table(name)
        at = table.cursor_row
        table.clear()
        for row in rows:
            table.add_row(*cells(row, now))
        if rows:
            table.move_cursor(row=min(at, len(rows) - 1))

    def _about(self, text: Text) -> None:
        self.query_one("#about", Static).update(text)

    def _table(self, name: str) -> DataTable[Any]:
        return self.query_one(f"#{name}", DataTable)


def about(seen: Mapping[str, Any]) -> Text:
    """Return what stands above the tables."""
    row, spread = seen["row"], seen["spread"]
    text = plain(row["group"], "bold")
    text.append(
        f"\n{row['state']} · {row['type']} · generation {row['generation']}"
        f" · {counted(row['members'], 'member')}"
    )
    text.append(
        f" · {row['protocol'] or 'no assignor'}"
        f" · {spread['least']} to {counted(spread['most'], 'partition')} each"
    )
    if seen["topics"]:
        text.append_text(plain(f"\ntopics: {', '.join(seen['topics'][:6])}", "dim"))
    for incident in (one for one in seen["incidents"] if one["closed_at"] is None):
        lasted = duration(seen["now"] - incident["opened_at"])
        text.append(f"\n▲ {incident['kind'].replace('_', ' ')} for {lasted}", TONES[incident["severity"]])
        text.append_text(plain(f"  {incident['why']}" if incident["why"] else "", "dim"))
    return text
