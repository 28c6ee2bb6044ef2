"""Gauges whose series are written as they are added: those of lag by topic, of which there are very many.

The client library makes an object and a dictionary of each series, and sorts and escapes all its labels at
each scrape. For tens of thousands of series that takes ten times as long as writing their lines at once. A
gauge without exemplars has the same lines in Prometheus' text and in OpenMetrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Written(Family):
    """One such gauge; `labels`: the names of its labels, behind that of the cluster."""

    def __init__(self, name: str, what: str, cluster: str, labels: Sequence[str]) -> None:
        super().__init__(name, what, "gauge")
        first = f'cluster="{_quoted(cluster)}"'.replace("%", "%%")
        pairs = ",".join([first, *(f'{label}="%s"' for label in labels)])
        self._line = f"{name}{{{pairs}}} %s\n"
        self._lines: list[str] = []

    def write(self, value: float, *labels: str) -> None:
        """Add a series."""
        self._lines.append(self._line % (*map(_quoted, labels), value))

    def __len__(self) -> int:
        return len(self._lines)

    def text(self) -> bytes:
        """Return its part of the page."""
        head = f"# HELP {self.name} {self.documentation}\n# TYPE {self.name} gauge\n"
        return (head + "".join(self._lines)).encode()


class Rest(Collector):
    """The families that are not written: what is left for the client library."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        """Yield them."""
        return iter(self._families)


def text(value: str) -> str:
    """Return a label's value; a lone surrogate is escaped, or no page would come out."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def _quoted(value: str) -> str:
    """Return a label's value as it stands between quotes."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return value
    return text(value).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
