# Every target sets up what it needs. `make` alone tells what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# The classes that Spark loads, for the JVMs of the tests
CLASSES := $(VENV)/spark-classes.jsa
# A server of S3 for tests. It takes other releases than Airflow of what both use.
OBJECT_STORE := $(VENV)/object-store/.installed
# Clients of Hive for the evidence: Spark 3.5 and Iceberg, Airflow's provider of Hive, hive-metastore-client. What they
# have in common with the tests comes from the tests' own environment.
HIVE_CLIENTS := $(VENV)/hive-clients/.installed
# Hadoop's connector to S3, with which Spark reads and writes there. No package has it alone.
S3_CONNECTOR := $(VENV)/s3-connector/.installed
# The builder of the documentation takes other releases than Airflow of what both use, too.
DOCS := $(VENV)/docs/.installed
# Options for pytest, such as: make test-unit PYTEST="-k router -x"
PYTEST ?=
# Benchmarks to run, by default all, and their options, such as: make bench BENCH="scans --scale 0.1"
BENCH ?=
# Scenarios of the trial under Airflow, by default all, and --keep for its logs
TRIAL ?=
# --keep keeps the files and logs of the demo of hosts
DEMO ?=
# Scale factor of TPC-H; 1 has six million lines
SCALE ?= 1
# Processes that run tests side by side, each with a Spark and a PostgreSQL of its own; a file stays in one.
# Files keep their order: the long ones, which start Spark, Airflow or many clients, come before the many short ones.
WORKERS ?= 2
SIDE_BY_SIDE := --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

# Dozens of processes import the same modules: one compiles them, the others need not.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(INSTALLED): pyproject.toml requirements/constraints.txt scripts/install-python-packages.sh
	@scripts/install-python-packages.sh
	@touch $@

$(OBJECT_STORE): $(INSTALLED) requirements/object-store.txt
	@echo "Installing a server of S3 for the tests (about 5 seconds) ..."
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(@D)
	@UV_LINK_MODE=copy $(BIN)/uv pip install --quiet --python $(@D)/bin/python --no-deps -r requirements/object-store.txt
	@touch $@

$(HIVE_CLIENTS): $(INSTALLED) requirements/hive-clients.txt
	@echo "Installing Spark 3.5 and other clients of Hive for the evidence (1 minute) ..."
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(@D)
	@UV_LINK_MODE=copy $(BIN)/uv pip install --quiet --python $(@D)/bin/python --no-deps -r requirements/hive-clients.txt
	@$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' > "$$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/of_the_tests.pth"
	@touch $@

$(S3_CONNECTOR): $(INSTALLED) requirements/s3-connector.txt
	@echo "Downloading Hadoop's connector to S3 for the evidence (180 MB) ..."
	@$(BIN)/uv venv --quiet --clear --seed --python $(BIN)/python $(@D)
	@$(@D)/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
		--dest $(@D)/sdist -r requirements/s3-connector.txt
	@tar -xzf $(@D)/sdist/*.tar.gz -C $(@D) --strip-components=3 --wildcards '*/deps/jars/hadoop-aws-*.jar' \
		'*/deps/jars/aws-java-sdk-bundle-*.jar'
	@rm -r $(@D)/sdist
	@touch $@

$(DOCS): $(INSTALLED) requirements/docs.txt
	@echo "Installing mkdocs for the documentation (about 5 seconds) ..."
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(@D)
	@UV_LINK_MODE=copy $(BIN)/uv pip install --quiet --python $(@D)/bin/python --no-deps -r requirements/docs.txt
	@touch $@

.PHONY: setup
setup: $(INSTALLED) java ## Build .venv and ensure that Java 17 or newer is there

$(CLASSES): $(INSTALLED) tests/spark_options.py | java
	@echo "Keeping the classes of Spark for faster starts ..."
	@$(BIN)/python -m tests.spark_options

.PHONY: java postgresql pgbouncer chromium fuse jdbc
java:
	@scripts/install-system-packages.sh java
postgresql:
	@scripts/install-system-packages.sh postgresql
chromium:
	@scripts/install-system-packages.sh chromium
pgbouncer:
	@scripts/install-system-packages.sh pgbouncer
fuse:
	@scripts/install-system-packages.sh fuse
jdbc:
	@scripts/install-system-packages.sh jdbc

.PHONY: demo
demo: setup ## Run the quickstart and the compaction DAG on real data, in ./.demo
	@$(BIN)/hivex demo

.PHONY: demo-hosts
demo-hosts: setup postgresql ## Run the quickstart DAG over two Spark clusters and a Connect server, each on hosts of its own
	@$(BIN)/python -m tests.hosts_demo $(DEMO)

# What the tests need that takes one processor for a while; the gate makes it beside its checks.
.PHONY: prepared
prepared: $(CLASSES) $(OBJECT_STORE)

.PHONY: test
test: setup postgresql pgbouncer chromium fuse $(CLASSES) $(OBJECT_STORE) ## Run all tests, and of the long ones a share that each commit draws anew
	$(BIN)/pytest $(SIDE_BY_SIDE) --durations=25 --durations-min=3 $(PYTEST)

.PHONY: evidence
evidence: setup postgresql pgbouncer chromium fuse $(CLASSES) $(OBJECT_STORE) $(HIVE_CLIENTS) $(S3_CONNECTOR) ## Run all of the long tests, and write their counts into docs/evidence.md
	HIVEX_EVIDENCE=1 $(BIN)/pytest $(SIDE_BY_SIDE) -m evidence --write-counts=docs/evidence.md $(PYTEST)

.PHONY: coverage
coverage: setup postgresql pgbouncer chromium fuse $(CLASSES) $(OBJECT_STORE) ## Run the tests, and print how much of each module they ran, the least first
	@rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest $(SIDE_BY_SIDE) --timeout=600 $(PYTEST)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --sort=cover

.PHONY: test-unit
test-unit: setup postgresql $(OBJECT_STORE) ## Run the tests that start neither Spark nor Airflow
	$(BIN)/pytest tests/unit $(PYTEST)

.PHONY: test-airflow
test-airflow: setup postgresql chromium ## Run the tests of the Airflow layer
	$(BIN)/pytest tests/airflow $(PYTEST)

.PHONY: airflow-trial
airflow-trial: setup postgresql ## Run the warehouse under a full Airflow that is killed (TRIAL="killed-jvm cleared" for some)
	$(BIN)/python -m tests.airflow_trial $(TRIAL)

.PHONY: lint types style
lint: types style ## Check format, style, types, the direction of imports and words
types: $(INSTALLED)
	$(BIN)/mypy
style: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/write-settings-page.py --check
	$(BIN)/python -m scripts.reference_pages --check
	$(BIN)/python scripts/check-words.py

.PHONY: format
format: $(INSTALLED) ## Put the code into the project's format, and write the pages of settings, operators, errors and events
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/python scripts/write-settings-page.py
	$(BIN)/python -m scripts.reference_pages

.PHONY: bench
bench: setup postgresql jdbc ## Measure, and print the figures as a table and as JSON (BENCH="transactions" for some)
	@UV_LINK_MODE=copy $(BIN)/uv pip install -q --python $(BIN)/python --no-deps -r requirements/bench.txt
	$(BIN)/python -m benchmarks $(BENCH)

.PHONY: tpch
tpch: setup ## Run TPC-H with its refresh functions over two clusters, and verify every row (SCALE=0.1 for less)
	$(BIN)/python -m benchmarks.tpch --scale $(SCALE)

.PHONY: wheel-trial
wheel-trial: $(INSTALLED) java ## Build the wheel and try it in a new venv, in ./build/wheel-trial
	@scripts/try-wheel.sh

# Without --quiet, with which mkdocs does not count warnings. The notice tells of the end of Material's maintenance.
.PHONY: docs
docs: $(DOCS) ## Build the site of the documentation, in ./build/docs; a broken link fails it
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --site-dir build/docs

.PHONY: requirements
requirements: $(INSTALLED) ## Resolve the pins again (UPGRADE=1: to the newest releases)
	$(BIN)/uv pip compile pyproject.toml --group dev --extra demo --extra hive --extra postgresql --python-version 3.11 --no-header --no-annotate \
		--no-emit-index-url --quiet $(if $(UPGRADE),--upgrade) --output-file requirements/constraints.txt
	$(BIN)/uv pip compile --group bench --constraint requirements/constraints.txt --python-version 3.11 --no-header \
		--no-annotate --no-emit-index-url --quiet $(if $(UPGRADE),--upgrade) --output-file requirements/bench.txt
	$(BIN)/uv pip compile --group object-store --python-version 3.11 --no-header --no-annotate --no-emit-index-url --quiet \
		$(if $(UPGRADE),--upgrade) --output-file requirements/object-store.txt
	$(BIN)/uv pip compile --group hive-clients --no-deps --python-version 3.11 --no-header --no-annotate \
		--no-emit-index-url --quiet $(if $(UPGRADE),--upgrade) --output-file requirements/hive-clients.txt
	$(BIN)/uv pip compile --group docs --python-version 3.11 --no-header --no-annotate --no-emit-index-url --quiet \
		$(if $(UPGRADE),--upgrade) --output-file requirements/docs.txt

.PHONY: clean
clean: ## Remove caches, demo data and results, but not .venv
	rm -rf .demo .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist benchmarks/results \
		spark-warehouse metastore_db derby.log
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## Remove .venv as well
	rm -rf $(VENV)
