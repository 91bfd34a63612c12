# Two commands on a fresh machine: `make demo` and `make test`. It needs Python 3.11, a JDK 17, make and git.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Airflow lives in an environment of its own, as it does with users; `make check` does without it.
AIRFLOW_VENV := .venv-airflow
AIRFLOW_STAMP := $(AIRFLOW_VENV)/.ready
AIRFLOW_CONSTRAINTS := deploy/airflow/constraints.txt
# Compiled modules are kept: to compile them anew costs every process of the tests a second.
unexport PYTHONDONTWRITEBYTECODE
# How many tests run at once. They wait for processes, clocks and kills a quarter of their time.
WORKERS ?= 2
# The fast tests wait for each other's threads and for pauses, but for no JVM: one more fills what they leave of the cores.
FAST_WORKERS ?= 3
# The JVMs of the tests start faster with it.
CLASSES = $(BIN)/python -m tests.class_archive
LINT_IMPORTS = PYTHONPATH=dags $(BIN)/lint-imports --cache-dir .import_linter_cache && \
	$(BIN)/deptry mt_core scheduler_plugins && (cd dags && ../$(BIN)/deptry freshtable_airflow)
# It runs in six processes, most of which wait for the clock.
AIRFLOW_CONTRACT := tests/airflow/test_scheduler_contract.py
# To import them takes every process of the tests seconds; tests/architecture/test_marks.py holds them to it.
WITHOUT_FAST_TESTS := --ignore tests/integration --ignore tests/airflow
# `make check test` runs the fast tests once.
NOT_CHECKED := $(if $(filter check,$(MAKECMDGOALS)),and (spark or postgres or flink or processes))

# $(call timed,NAME,COMMAND) runs a part of a target and prints how long it took.
timed = start=$$(date +%s); $(2); status=$$?; echo "$(1) took $$(($$(date +%s) - start)) s"; exit $$status
# $(call beside,COMMAND,OTHER) runs both at once, shows what OTHER said when both have ended, and fails if one of them did.
beside = said=$$(mktemp); ($(2)) >$$said 2>&1 & other=$$!; trap "kill $$other" INT TERM; \
	($(1)); status=$$?; wait $$other || status=$$?; cat $$said; rm -f $$said; exit $$status
# Airflow mostly waits for its clock. The tests that go on beside it take what it leaves of the cores.
LET_AIRFLOW_GO_FIRST := nice -n 5

.PHONY: help setup airflow wheel demo check format test test-slow test-deep bench picture docs clean
help:            ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(STAMP)  ## Make .venv with the command `freshtable`, and fetch the Spark jars once

$(STAMP): pyproject.toml
	@echo "Installing Spark and what else the gateway needs into $(VENV); the first time takes a few minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[gateway,client,postgres,demo,dev]'
	$(BIN)/python -m mt_core.spark.jars
	@# All but the streams that need them work without a JDK.
	$(BIN)/python -m mt_core.spark.operator_jar || true
	@touch $@

wheel: setup     ## Build the wheel of the package into dist/, with the operators of streams compiled
	$(BIN)/python -m mt_core.spark.operator_jar
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

airflow: $(AIRFLOW_STAMP) ## Make .venv-airflow, an Airflow with our package, for the tests

$(AIRFLOW_STAMP): $(AIRFLOW_CONSTRAINTS) dags/pyproject.toml
	@echo "Installing Airflow into $(AIRFLOW_VENV), for the tests; the first time takes a few minutes."
	$(PYTHON) -m venv $(AIRFLOW_VENV)
	$(AIRFLOW_VENV)/bin/python -m pip install --quiet -c $(AIRFLOW_CONSTRAINTS) apache-airflow psycopg2-binary asyncpg pytest types-croniter
	$(AIRFLOW_VENV)/bin/python -m pip install --quiet --no-deps --editable ./dags
	@touch $@

demo: setup      ## Run the main job on real data; KEEP=1 leaves the gateway running
	$(BIN)/freshtable demo $(if $(KEEP),--keep)

check: setup     ## Format, lint, types, import layers, fast tests (about a minute)
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	@$(call beside,$(call timed,fast tests,$(BIN)/python -m pytest -q -n $(FAST_WORKERS) --dist loadfile --no-loadscope-reorder $(WITHOUT_FAST_TESTS) -m 'not spark and not postgres and not flink and not airflow and not processes and not slow'),\
		$(call timed,types and imports,$(BIN)/mypy && $(LINT_IMPORTS)))

format: setup    ## Rewrite the sources in our format
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --fix --quiet .

test: setup airflow ## All tests but the slow ones, with a real Spark, a real PostgreSQL and a real Airflow
	$(BIN)/python -m tests.integration.flink_client.jars
	$(CLASSES)
	@$(call beside,$(call timed,tests without Airflow,$(LET_AIRFLOW_GO_FIRST) $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not slow and not airflow $(NOT_CHECKED)' --durations 20),\
		$(call timed,tests with Airflow,$(BIN)/python -m pytest -q -m 'airflow and not slow'))
	@$(call timed,tests of dags/,$(AIRFLOW_VENV)/bin/python -m pytest -q dags/tests)
	$(BIN)/mypy --python-executable $(AIRFLOW_VENV)/bin/python --allow-untyped-calls dags/freshtable_airflow

test-slow: setup airflow ## The tests that take minutes: kill -9, many clients, many examples
	$(BIN)/python -m tests.integration.kafka_broker
	$(CLASSES)
	@$(call beside,$(call timed,slow tests without Airflow,$(LET_AIRFLOW_GO_FIRST) $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'slow and not airflow' --timeout 900 --durations 20),\
		($(call timed,contract of schedulers with Airflow,$(BIN)/python -m pytest -q -m 'slow and airflow' $(AIRFLOW_CONTRACT))); first=$$?; \
		($(call timed,slow tests with Airflow,$(BIN)/python -m pytest -q -m 'slow and airflow' --ignore $(AIRFLOW_CONTRACT) --durations 20)) && [ $$first = 0 ])

test-deep: setup ## The long random tests many times as deep as in `make test-slow`, and all cases of which it takes some: hours
	FRESHTABLE_TEST_DEPTH=10 $(BIN)/python -m pytest -q -m '(slow or postgres) and not airflow' -k 'random or generated or maintained or killed or dialect or model or many_refreshes or any_request or whatever_happens or engine_contract or histories'

bench: setup airflow ## Measure, and print the tables of benchmarks/
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks

picture: setup   ## Run the demo, and draw docs/images/demo.svg from what it shows
	$(BIN)/python docs/picture.py

docs: setup      ## Write the generated reference pages again
	$(BIN)/python docs/build.py

clean:           ## Remove what setup and the tools made
	rm -rf $(VENV) $(AIRFLOW_VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
