"""What a scrape of `/metrics` costs where very many groups have lag: CPU time and bytes.

Groups share topics, and have `width` partitions of `topics` topics each. Lag is measured as the driver does,
anew before each scrape. `--names` gives it under another exporter's names as well, with `--alone` only there.

    python -m bench.core.scrape --groups 10000
"""

from __future__ import annotations

import argparse
import time

from bench.core.lag import EVERY_S, T0, Size, summary, turns
from rebalance_monitor.coordinator.lag.following import Lag
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.metrics.collector import SnapshotCollector, exposition, registry_of
from rebalance_monitor.dashboard.metrics.compatible import NAMES
from rebalance_monitor.dashboard.metrics.lag_series import Wanted
from rebalance_monitor.dashboard.metrics.tallies import Limits, Tallies
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update

SCRAPES = 3


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--own", type=int, default=500, help="groups with the other series")
    parser.add_argument("--names", action="append", default=[], help="kminion, kafka_exporter")
    parser.add_argument("--alone", action="store_true", help="ask for the series of --names only")
    options = parser.parse_args()
    size = Size(options.groups, options.width, options.partitions)
    lag = Lag(DetectionSettings(), "bench")
    snapshot, tallies = Snapshot("bench"), Tallies(Limits(max_groups=options.own))
    snapshot.listen(tallies.on_update)
    wanted = Wanted(tuple(options.names), groups=options.groups)
    registry = registry_of(SnapshotCollector(snapshot, tallies, {}, lambda: T0 / 1000, wanted))
    groups = {f"g{one}": summary(one, size.width, size.partitions) for one in range(size.groups)}
    only = [one for name in options.names for one in NAMES[name].series] if options.alone else []
    took, page, series = [], b"", 0
    for number, _ in enumerate(turns(lag, size, SCRAPES)):
        snapshot.apply(
            Update(groups=groups if not number else {}, lags=lag.lags(), now=T0 + number * EVERY_S)
        )
        began = time.process_time()
        page, _ = exposition(registry, "", only)
        took.append(time.process_time() - began)
        series = sum(not line.startswith(b"#") for line in page.splitlines())
    by_topic = page.count(b"rebalance_monitor_group_topic_lag_records{")
    print(
        f"{options.groups} groups, {by_topic} with lag by topic, {options.own} with all series:"
        f" {series} series, {len(page) / 1e6:.1f} MB, {min(took):.2f} s of CPU a scrape"
    )


if __name__ == "__main__":
    main()
