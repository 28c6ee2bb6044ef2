"""What spark-submit starts: the same verb, with the platform's own session and jars."""

from rebalance_monitor.cli.main import run

if code := run(["run", "--config", "/etc/rebalance-monitor/monitor.yaml", "-o", "jsonl"]):
    raise SystemExit(code)
