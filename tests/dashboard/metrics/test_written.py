"""Series that are written at once: the same as the client library makes of them."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from rebalance_monitor.dashboard.metrics.written import Rest, Written, text

NAME, WHAT = "group_topic_lag_records", "records that wait"
NAMES = st.text(st.characters(exclude_categories=()), max_size=8)
VALUES = st.integers(0, 2**60) | st.floats(0, 1e9)
SERIES = st.lists(st.tuples(NAMES, NAMES, VALUES), min_size=1, max_size=4, unique_by=lambda one: one[:2])


@given(NAMES, SERIES)
def test_written_series_are_those_of_the_library_in_both_formats(
    cluster: str, series: list[tuple[str, str, float]]
) -> None:
    written, family = Written(NAME, WHAT, cluster, ("group", "topic")), Family(NAME, WHAT, "gauge")
    for group, topic, value in series:
        written.write(value, group, topic)
        labels = {"cluster": text(cluster), "group": text(group), "topic": text(topic)}
        family.add_sample(NAME, labels, value)
    assert len(written) == len(series)
    page = written.text().decode()
    for theirs in (generate_latest(Rest([family])), generate_openmetrics(Rest([family]))):
        made = theirs.decode().removesuffix("# EOF\n")
        assert heads(page) == heads(made)
        assert lines(page) == lines(made)


def heads(page: str) -> list[str]:
    return [line for line in page.split("\n") if line.startswith("#")]


def lines(page: str) -> dict[str, float]:
    """Series -> value."""
    found = (line.rpartition(" ") for line in page.split("\n") if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in found}
