# The two commands: `make demo` and `make test`. Both prepare everything they need (tools/setup.sh).
# A Python of your own choice: make PYTHON=/path/to/python3.12 …

SHELL := /bin/sh
PYTHON ?=
VENV := .venv/bin
PARTS := $(patsubst %/py.typed,%,$(wildcard */py.typed))
UNIT := not broker and not spark and not slow and not chaos
QUICK := not slow and not chaos
export PYTHON
# Where it is set, each of the many processes that tests and benchmarks start compiles our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-demo demo test check test-slow chaos yarn soak test-matrix fuzz oracle fit accuracy accuracy-full exam healthy quiet-hours agreement ceiling reached bench bench-scale bench-births bench-rivals sbom pip-audit deps-ci lint typecheck format site docs chart structure golden lock clean

help: ## Say what there is.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup-demo ## A local Kafka, consumers with faults, and what the monitor says (ARGS="--duration 5m": waits longer).
	@$(VENV)/python tools/jars.py
	@$(VENV)/rebalance-monitor demo $(ARGS)

test: setup lint typecheck ## Everything that needs Python and Java only; ends with what did not run and why.
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m pytest -m "$(QUICK)" $(ARGS)

check: setup lint typecheck ## The quick part: no broker, no Spark.
	@$(VENV)/python -m pytest -q -m "$(UNIT)" $(ARGS)

test-slow: setup ## The long tests, and those that need what deps-ci installs.
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m pytest -m slow $(ARGS)

KILLS ?= 10
chaos: setup ## Faults on purpose: kills, brokers away, stalls, full disk, garbage (KILLS=100 CHAOS_AWAY_S=300).
	@$(VENV)/python tools/jars.py
	@KILLS=$(KILLS) $(VENV)/python -m pytest -v -m "chaos" $(ARGS)

yarn: setup ## The job on a real YARN and HDFS, plain and behind Kerberos (50 minutes); goes on at the test that failed.
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m pytest -v --stepwise -m "chaos" tests/deploy/test_yarn.py $(ARGS)

soak: setup ## Hours of load, and how memory grows (ARGS="--minutes 120 --rate 20000 --groups 10000"; --slow: a day).
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m bench.job.soak $(ARGS)

test-matrix: setup ## A broker, the job and a fault on every Spark, broker and Python; in pieces (ARGS="--spark 4.2").
	@$(VENV)/python -m tools.matrix $(ARGS)

RECORDS ?= 1000000
SEED ?= 1
fuzz: setup ## Damaged records against the decoders (RECORDS=1000000 SEED=1).
	@$(VENV)/python -m tests.fuzz.mutate --records $(RECORDS) --seed $(SEED)
	@$(VENV)/python -m tests.fuzz.fuzz_decoders --seconds 60

oracle: setup ## Every record type against Kafka's own classes (needs a JDK); writes docs/measurements/oracles.md.
	@$(VENV)/python -m tests.oracle $(ARGS)

fit: setup ## Fit the constants of the departure model to simulations and recordings (15 minutes at most).
	@$(VENV)/python -m rebalance_monitor.lab.suite.fit $(ARGS)

accuracy: setup ## Every scenario of the lab, and how precise and complete the findings were.
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m rebalance_monitor.lab.suite.accuracy $(ARGS)

accuracy-full: setup ## As accuracy, with every broker and family, for hours; goes on where it stopped.
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m rebalance_monitor.lab.suite.accuracy --full $(ARGS)

exam: setup ## Runs at production timings, 22 minutes a seed; goes on where it stopped (ARGS="--seeds 3 --kafka-version 3.9.1").
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m rebalance_monitor.lab.suite.exam $(ARGS)

healthy: setup ## False alarms about healthy groups of real clients, 25 or 45 minutes a seed (ARGS="--herd calm --record 1").
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m rebalance_monitor.lab.suite.healthy $(ARGS)

quiet-hours: setup ## False alarms on simulated healthy groups; goes on where it stopped (ARGS="--hours 10000 --minutes 600").
	@$(VENV)/python -m bench.core.quiet_hours $(ARGS)

agreement: setup ## The simulator beside recordings of real brokers and clients, by distribution.
	@$(VENV)/python -m rebalance_monitor.lab.simulator.study.agreement $(ARGS) $(filter-out %/moved-4.1.1,$(wildcard tests/fixtures/scenarios/*))

reached: setup ## The ceiling beside what the model reaches, at production timings by margins (ARGS="--groups 450 --learnt 2500").
	@$(VENV)/python -m rebalance_monitor.lab.suite.reached $(ARGS)

ceiling: setup ## How often an observer who knows every setting could be sure (long; ARGS="--family java").
	@$(VENV)/python -m rebalance_monitor.lab.simulator.study.ceiling $(ARGS)

bench: setup ## Records per second and CPU of every stage, steady traffic, against the floors of this machine.
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m bench.suite bench --pipeline "$(ARGS)"

bench-scale: setup ## Growth with groups and members, a hot shard, rebuild of a long topic, two executors (21 minutes, 90 at most).
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m bench.suite scale

bench-rivals: setup ## The price of each engine beside KMINION_BIN and BURROW_BIN, five passes; goes on where it stopped (2 hours).
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m bench.suite rivals

bench-births: setup ## Very many new groups at once against the running job (ARGS="--groups 100000 --seconds 75"; 5 minutes).
	@$(VENV)/python tools/jars.py
	@$(VENV)/python -m bench.job.births $(ARGS)

sbom: setup ## Write build/sbom.json (CycloneDX) from the hash-pinned requirements.
	@$(VENV)/python tools/sbom.py

pip-audit: setup ## Check the pinned requirements against PyPI's advisories; what cannot be looked up is a failure.
	@$(VENV)/python -m venv build/pip-audit
	@build/pip-audit/bin/pip install --quiet --require-hashes -r requirements/audit.txt
	@build/pip-audit/bin/pip-audit --strict --require-hashes --disable-pip $(addprefix -r ,$(wildcard requirements/*.txt))

deps-ci: ## Install the system packages that test-slow uses (Debian, Ubuntu).
	@sh tools/deps-ci.sh

lint: setup ## ruff: rules and format.
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .

typecheck: setup ## mypy, strict.
	@$(VENV)/mypy $(foreach part,$(PARTS),-p rebalance_monitor.$(part))
	@$(VENV)/mypy tools
	@$(VENV)/mypy -p bench

format: setup ## Let ruff mend what it can.
	@$(VENV)/ruff check --fix .
	@$(VENV)/ruff format .

site: setup ## Build the documentation site into build/site, without network.
	@NO_MKDOCS_2_WARNING=1 $(VENV)/python -m mkdocs build --strict

docs: setup ## Write the generated pages again.
	@$(VENV)/python -m tools.docs
	@$(VENV)/python tools/dashboards.py

chart: setup ## Write deploy/kubernetes again from the Helm chart (needs helm).
	@$(VENV)/python -m tools.chart

structure: setup ## Draw the import pictures of docs/architecture.md again, and print the route of a record through coordinator.
	@$(VENV)/python -m tools.docs
	@$(VENV)/python -m tools.route

golden: setup ## Write the golden files of alert messages again (read the difference).
	@$(VENV)/python -m tests.alerts.golden_files

setup: ## Prepare .venv with everything for development.
	@sh tools/setup.sh test

setup-demo:
	@sh tools/setup.sh demo

PIN := uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-header --no-annotate --python-version 3.11
LOCK := $(PIN) pyproject.toml requirements/build.in requirements/demo.in --extra spark --extra lab --extra objects

lock: ## Pin the newest fitting requirements again (needs uv).
	@$(PIN) requirements/build.in -o requirements/build.txt
	@$(PIN) requirements/audit.in -o requirements/audit.txt
	@$(LOCK) --extra quality --group dev -o requirements/test.txt
	@$(LOCK) -c requirements/test.txt -o requirements/demo.txt
	@$(LOCK) --extra quality -c requirements/test.txt -o requirements/quality.txt
	@$(PIN) pyproject.toml requirements/build.in --extra objects -c requirements/test.txt -o requirements/embedded.txt
	@$(PIN) requirements/spark35.in -o requirements/spark35.txt
	@$(PIN) requirements/spark42.in -o requirements/spark42.txt

clean: ## Remove what was built, but not .venv.
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse
