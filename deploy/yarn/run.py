"""What spark-submit starts in the application master: the same verb, with the platform's session and jars."""

from rebalance_monitor.cli.main import run

if code := run(["run", "--config", "monitor.yaml", "-o", "jsonl"]):
    raise SystemExit(code)
