"""`top`: a live table of groups with sort, filter and search; Enter opens a group.

Asks `Answers` in a thread, so neither network nor disk holds up the keys. What cannot be answered is said in
the status line and asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.traceback import Traceback
from textual import work
from textual.app import App
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Input, Static

from rebalance_monitor.coordinator.findings.wording import counted
from rebalance_monitor.coordinator.storms.offenders import NO_OFFENDER
from rebalance_monitor.dashboard.top.cells import GROUP_COLUMNS, TONES, group_cells, plain
from rebalance_monitor.dashboard.top.group import GroupScreen
from rebalance_monitor.dashboard.web.http.answers import Unanswered

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from rebalance_monitor.dashboard.web.http.answers import Answers

SORTS = ("trouble", "rebalances", "last_rebalance", "group", "state", "members", "generation", "cause")
DOWN = frozenset({"rebalances", "last_rebalance", "members", "generation"})
ROWS = 200


class Top(App[None]):
    """The application. `every_s`: seconds between two refreshes."""

    TITLE = "rebalance-monitor top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; padding: 0 1; }
    #search { display: none; height: 3; }
    #search.on { display: block; }
    #status { height: 1; padding: 0 1; color: $text-muted; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("q", "quit", "Quit"),
        Binding("slash", "search", "Search"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("t", "trouble", "Only trouble"),
        Binding("e", "empty", "Hide empty"),
        Binding("escape", "clear", "Clear", show=False),
    ]

    def __init__(self, answers: Answers, every_s: float = 1.0) -> None:
        super().__init__()
        self._answers = answers
        self._every_s = every_s
        self._shown: list[str] = []
        self.sort = "trouble"
        self.turned = False
        self.only_trouble = False
        self.without_empty = False
        self.search = ""

    def _fatal_error(self) -> None:
        """Leave with a traceback that shows no local variables, as textual's own does: they hold secrets."""
        self.bell()
        self.panic(Traceback(width=None, show_locals=False))

    def compose(self) -> ComposeResult:
        """Give the widgets."""
        with Vertical():
            yield Static(id="head")
            yield Input(placeholder="part of a group's, topic's, client's or host's name", id="search")
            yield DataTable[Any](cursor_type="row", zebra_stripes=False, id="groups")
            yield Static(id="status")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to refresh."""
        table = self._table()
        for name in GROUP_COLUMNS:
            table.add_column(name, key=name)
        table.focus()
        self.refresh_view()
        self.set_interval(self._every_s, self.refresh_view)

    @work(thread=True, exclusive=True)
    def refresh_view(self) -> None:
        """Ask for what is shown."""
        order = "desc" if self.turned != (self.sort in DOWN) else "asc"
        trouble = "any" if self.only_trouble else ""
        try:
            seen = self._answers.ask("/cluster")
            page = self._answers.ask(
                "/groups", search=self.search, trouble=trouble, sort=self.sort, order=order, limit=ROWS
            )
        except Unanswered as error:
            self.call_from_thread(self._say, str(error))
            return
        self.call_from_thread(self._show, seen, page)

    def _show(self, seen: dict[str, Any], page: dict[str, Any]) -> None:
        rows = [row for row in page["rows"] if not (self.without_empty and row["state"] == "Empty")]
        names = [row["group"] for row in rows]
        table = self._table()
        if names == self._shown:
            self._patch(rows, page["now"])
        else:
            at = table.cursor_row
            under = self._shown[at] if 0 <= at < len(self._shown) else None
            table.clear()
            for row in rows:
                table.add_row(*group_cells(row, page["now"]))
            self._shown = names
            # The cursor stays with its group, wherever that is now.
            if under in names:
                table.move_cursor(row=names.index(under))
        self._head().update(head_of(seen))
        self._say(
            f"{page['matched']:,} of {counted(page['total'], 'group')} · {self._chosen()} · "
            f"{self._answers.where}"
        )

    def _patch(self, rows: list[dict[str, Any]], now: int) -> None:
        table = self._table()
        for number, row in enumerate(rows):
            for place, cell in enumerate(group_cells(row, now)):
                if table.get_cell_at((number, place)) != cell:  # type: ignore[arg-type]  # a pair is a coordinate
                    table.update_cell_at((number, place), cell)  # type: ignore[arg-type]  # so it is here

    def _chosen(self) -> str:
        said = [f"by {self.sort.replace('_', ' ')}{' (reversed)' if self.turned else ''}"]
        said += ["only trouble"] * self.only_trouble + ["without empty"] * self.without_empty
        return ", ".join(said + ([f"“{self.search}”"] if self.search else []))

    def _say(self, text: str) -> None:
        self.query_one("#status", Static).update(plain(text))

    def _table(self) -> DataTable[Any]:
        return self.query_one("#groups", DataTable)

    def _head(self) -> Static:
        return self.query_one("#head", Static)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.turned = False
        self.refresh_view()

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.turned = not self.turned
        self.refresh_view()

    def action_trouble(self) -> None:
        """Show groups in trouble only, or all again."""
        self.only_trouble = not self.only_trouble
        self.refresh_view()

    def action_empty(self) -> None:
        """Hide groups without members, or show them again."""
        self.without_empty = not self.without_empty
        self.refresh_view()

    def action_search(self) -> None:
        """Ask for a name."""
        field = self.query_one("#search", Input)
        field.add_class("on")
        field.focus()

    def action_clear(self) -> None:
        """Show all groups again."""
        field = self.query_one("#search", Input)
        field.remove_class("on")
        field.value = self.search = ""
        self._table().focus()
        self.refresh_view()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while a name is typed."""
        self.search = event.value.strip()
        self.refresh_view()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Go back to the table, with the filter on."""
        self._table().focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the group under the cursor."""
        if 0 <= event.cursor_row < len(self._shown):
            self.push_screen(GroupScreen(self._answers, self._shown[event.cursor_row], self._every_s))


def _offender(one: dict[str, Any]) -> str:
    """Return whose fault a storm is, "" of what is none."""
    worst = one["worst"]
    if worst is not None:
        host = f" on {worst['host']}" if worst["host"] else ""
        return f" · worst offender {worst['client_id']}{host}"
    return f" · {NO_OFFENDER}" if one["details"].get("worst_client") else ""


def head_of(seen: dict[str, Any]) -> Any:  # noqa: ANN401 - rich's Text, which mypy sees as untyped here
    """Return the lines above the table: the cluster at a glance, and what is critical."""
    health = seen["health"]
    states = ", ".join(f"{one['count']:,} {one['name']}" for one in seen["states"])
    ready = (
        "caught up"
        if health["ready"]
        else f"catching up ({counted(health['catching_up'], 'partition')} left)"
    )
    text = plain(seen["cluster"], "bold")
    hour = sum(seen["minutes"])
    text.append(
        f"  {counted(seen['groups'], 'group')}: {states} · {counted(hour, 'rebalance')} in the last hour"
        f" · {ready}"
    )
    loud = [one for one in seen["incidents"] if one["severity"] == "critical"]
    for one in loud[:3]:
        text.append("\n▲ ", TONES["critical"])
        text.append(one["kind"].replace("_", " ") + " ", TONES["critical"])
        text.append_text(plain(one["group"] or counted(one["groups_total"], "group"), "bold"))
        text.append_text(plain(_offender(one)))
    if len(loud) > 3:  # noqa: PLR2004 - the three above
        text.append(f"\n  and {len(loud) - 3} more", "red")
    return text
