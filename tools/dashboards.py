"""Makes the Grafana dashboards of deploy/grafana from its boards.yaml, with grafana-foundation-sdk.

Run by `make docs`; a test compares the JSON with what is committed.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import GraphDrawStyle, LineInterpolation, StackingMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from rebalance_monitor.dashboard.metrics.definitions import METRICS

FOLDER = Path(__file__).resolve().parent.parent / "deploy" / "grafana"
TAG = "rebalance-monitor"
PAGE = "http://127.0.0.1:8377"
"""Where the live page is, unless the variable `page` says something else."""
TEAMS = METRICS["group"].sample
OF_TEAM = f'on (cluster, group) {TEAMS}{{cluster=~"$cluster", team=~"$team"}}'
VARIABLES = {
    "team": f'label_values({TEAMS}{{cluster=~"$cluster"}}, team)',
    "group": f'label_values({TEAMS}{{cluster=~"$cluster", team=~"$team"}}, group)',
}
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. look: a key of `LOOKS`. queries: each with `expr`, perhaps `legend`. unit: as in Grafana."""

    title: str
    what: str
    look: str
    queries: Sequence[dict[str, str]]
    unit: str = "short"
    span: int = 12
    height: int = 8


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard: rows of panels. choices: what is chosen at the top beside the cluster (`VARIABLES`)."""

    uid: str
    title: str
    what: str
    choices: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Panel]]]


@cache
def boards() -> dict[str, Board]:
    """Return the dashboards by the names of their files."""
    body = yaml.safe_load((FOLDER / "boards.yaml").read_text(encoding="utf-8"))
    return {
        name: Board(
            **{
                **board,
                "rows": [(row["title"], list(map(_of_yaml, row["panels"]))) for row in board["rows"]],
            }
        )
        for name, board in body.items()
    }


def _of_yaml(panel: dict[str, Any]) -> Panel:
    queries = [{**query, "expr": query["expr"].replace("$of_team", OF_TEAM)} for query in panel["queries"]]
    return Panel(**{**panel, "queries": queries})


def as_json(board: Board) -> str:
    """Return one dashboard as Grafana takes it."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.what)
        .tags(["kafka", TAG])
        .link(_boards())
        .link(
            dashboard.DashboardLink("Live page")
            .type(DashboardLinkType.LINK)
            .url("${page}")
            .target_blank(target_blank=True)
        )
        .timezone("utc")
        .refresh("30s")
        .time("now-6h", "now")
        .editable()
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            _variable("cluster", f"label_values({METRICS['build'].sample}, cluster)", several=True)
        )
    )
    for name in board.choices:
        made = made.with_variable(_variable(name, VARIABLES[name], several=name != "group"))
    made = made.with_variable(dashboard.TextBoxVariable("page").label("Live page").default_value(PAGE))
    for title, panels in board.rows:
        made = made.with_row(dashboard.Row(title))
        for panel in panels:
            made = made.with_panel(_panel(panel, _links(panel, board)))
    return json.dumps(made.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _variable(name: str, query: str, *, several: bool) -> dashboard.QueryVariable:
    made = (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(several)
        .include_all(several)
    )
    # All is every value and none: a group may be of no team.
    return made.all_value(".*").current(VariableOption(text="All", value="$__all")) if several else made


def _boards() -> dashboard.DashboardLink:
    """Lead to the other boards, at the same time and with the same choices."""
    made = dashboard.DashboardLink("Boards").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    return made.as_dropdown(as_dropdown=True).keep_time(keep_time=True).include_vars(include_vars=True)


def _links(panel: Panel, board: Board) -> list[dashboard.DashboardLink]:
    """Lead from a group to its page and board, and from a point in time to the incidents of that moment."""
    asks = " ".join(query["expr"] for query in panel.queries)
    group = None
    if "group" in board.choices:
        group = "${group:percentencode}"
    elif panel.look == "table" and "group" in asks:
        group = "${__data.fields.group:percentencode}"
    elif "by (group)" in asks:
        group = "${__field.labels.group:percentencode}"
    when = "" if panel.look in {"stat", "table"} else "&at=${__value.time}"
    found = [("Group page", f"${{page}}/?group={group}{when}")] if group else []
    if group and "group" not in board.choices:
        here = "var-datasource=${datasource}&var-page=${page}&${cluster:queryparam}&${__url_time_range}"
        found.append(("Group board", f"/d/rebalance-monitor-group?var-group={group}&{here}"))
    if when:
        found.append(("Incidents of that moment", f"${{page}}/?view=incidents{when}"))
    return [_link(title, url) for title, url in found]


def _link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).url(url).target_blank(target_blank=True)


def _panel(panel: Panel, links: list[dashboard.DashboardLink]) -> Any:  # noqa: ANN401 - a builder of whichever look
    made = LOOKS[panel.look]()
    made.title(panel.title).description(panel.what).datasource(SOURCE)
    made.unit(panel.unit).span(panel.span).height(panel.height)
    if links:
        made.data_links(links)
    for number, query in enumerate(panel.queries):
        target = prometheus.Dataquery().expr(query["expr"]).ref_id(chr(ord("A") + number)).datasource(SOURCE)
        target = target.legend_format(query["legend"]) if "legend" in query else target
        made.with_target(_asked(panel.look, target))
    return made


def _asked(look: str, target: prometheus.Dataquery) -> prometheus.Dataquery:
    if look == "table":
        return target.instant().format(PromQueryFormat.TABLE)
    if look == "heatmap":
        return target.range().format(PromQueryFormat.HEATMAP)
    return target.instant() if look == "stat" else target.range()


def _bars() -> timeseries.Panel:
    return _stacks().draw_style(GraphDrawStyle.BARS).fill_opacity(80)


def _stacks() -> timeseries.Panel:
    stacked = common.StackingConfig().mode(StackingMode.NORMAL)
    return timeseries.Panel().fill_opacity(40).stacking(stacked)


def _steps() -> timeseries.Panel:
    return timeseries.Panel().line_interpolation(LineInterpolation.STEP_AFTER)


LOOKS: dict[str, Callable[[], Any]] = {
    "stat": stat.Panel,
    "table": table.Panel,
    "lines": timeseries.Panel,
    "bars": _bars,
    "stacked": _stacks,
    "steps": _steps,
    "states": statetimeline.Panel,
    "heatmap": heatmap.Panel,
}


def main() -> None:
    """Write the JSON files."""
    for name, board in boards().items():
        (FOLDER / f"{name}.json").write_text(as_json(board), encoding="utf-8")


if __name__ == "__main__":
    main()
