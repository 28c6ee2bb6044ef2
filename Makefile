# The lead's bootstrap: the set-up engineer completes it.
PY := .venv/bin/python
PARTS := alerts checkpoints cli cluster config coordinator dashboard decoders lab streaming
.PHONY: typed typecheck lint
typed:
	@mkdir -p build/typed/rebalance_monitor
	@for part in $(PARTS); do ln -sfn ../../../$$part build/typed/rebalance_monitor/$$part; done
typecheck: typed
	.venv/bin/mypy -p rebalance_monitor
lint:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
