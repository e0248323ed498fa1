# Every command that a person or CI runs; plain `make` prints them.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup wheels test test-long check format generate ops demo matrix spark-matrix bench scale mutants mutation soak fuzz audit dist versions kafka k8s k8s-cluster docs image image-test clean

PY := .venv/bin/python
# The Java that setup found, also where another one comes first in the path. Compiled modules are kept: tests start
# some hundred processes of Python, and each would compile everything that it imports.
RUN := env -u PYTHONDONTWRITEBYTECODE JAVA_HOME="$$(cat .venv/.java-home)" PATH="$(CURDIR)/.venv/bin:$$PATH"
# `make test ARGS="tests/transports -k packed"` runs a part. A room of tests takes less than a minute, but for
#   spark     a JVM and many short jobs; five files start Sparks of their own                         10 minutes
#   faults    every state that a crash leaves, 50 kills of a real gateway, and Kafka brokers          6 minutes
#   model     thousands of random walks, and one search for each wrong cell of the tables             2 minutes
#   demo      two whole runs of the demo with all their faults, two short ones on Kafka, one on Redis  4 minutes
#   index     random walks of two indexes side by side; with an empty cache kernels are compiled      2 minutes
#   engine    a year of virtual time                                                                  1 minute
#   client    gateways that are killed, and leases that run out                                       1 minute
#   contract  some 3,500 requests that schemathesis makes of the OpenAPI document                     1 minute
#   matrix    a gateway over Kafka that is struck in a few of the ways of `make matrix`               1 minute
#   deploy    Apache Kafka brokers that are started, killed and stopped                               2 minutes
#   examples  Go compiles and vets its client                                                         1 minute
ARGS ?=
# One more than cores: some tests wait for processes and leases.
WORKERS ?= 3

help: ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## /\1\t/' | expand -t 14

setup: ## the environment in .venv: finds Python and Java first; quick when nothing changed
	@scripts/setup.sh

wheels: setup ## every package into ./wheels, 700 MB, from which `make setup` takes them without a network
	@$(PY) -m pip download --quiet --disable-pip-version-check --require-hashes --dest wheels -r requirements/dev.txt
	@$(PY) -m pip download --quiet --disable-pip-version-check --dest wheels setuptools wheel

# Runs pytest with these arguments, and leaves its status in out/test/exit.
PYTEST = mkdir -p out/test && rm -f out/test/exit && $(RUN) $(PY) -m pytest -n $(WORKERS) --dist worksteal --durations 25 $(1); \
	status=$$?; echo $$status > out/test/exit; exit $$status

test: check ## what is checked and tested without Spark and Kafka, 12 minutes on two cores; ARGS=tests/core one room, whichever
	@$(call PYTEST,$(if $(ARGS),$(ARGS),-m "not long"))

test-long: setup ## the rest of the tests: Spark, Kafka brokers, the demo, the matrix, versions, 24 minutes
	@$(call PYTEST,-m long $(ARGS))

check: setup ## ruff, format, mypy --strict, the import contracts, what is generated, the OpenAPI document
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy -p oncegate -p oncegate_spark -p pyspark_oncegate
	@$(RUN) lint-imports
	@$(RUN) $(PY) scripts/unasync.py --check
	@$(RUN) $(PY) -m scripts.generate --check
	@$(RUN) $(PY) -m scripts.draw_tables --check
	@$(RUN) $(PY) -m deploy.grafana --check
	@$(RUN) $(PY) -m deploy.k8s --check
	@$(RUN) openapi-spec-validator service/oncegate/transports/http/openapi/openapi.json
	@$(RUN) $(PY) scripts/structure.py --large

format: setup ## what ruff can mend by itself
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

generate: setup ## the committed files that are made from code: OpenAPI, the client's parts, tables in docs/
	@$(RUN) $(PY) -m scripts.generate
	@$(RUN) $(PY) -m scripts.draw_tables
	@$(RUN) $(PY) -m deploy.grafana
	@$(RUN) $(PY) -m deploy.k8s
	@$(RUN) $(PY) scripts/unasync.py

ops: setup ## dashboards, rules, compose, console: a real gateway and Prometheus, pages and panels (out/ops) in Chromium (apt: prometheus npm chromium)
	@$(RUN) CI=true NEEDS_CONSOLE=true NEEDS_PANELS=true $(PY) -m pytest tests/deploy/test_console.py tests/deploy/test_panels.py tests/deploy/test_dashboards.py tests/deploy/test_rules.py tests/deploy/test_compose.py tests/deploy/test_image.py $(ARGS)

demo: setup ## real data, real Spark, six faults, one job four ways, ARGS=--kafka on a broker (--direct), --redis, --short: out/demo/result.json and .png
	@$(RUN) $(PY) -m demo $(ARGS)

spark-matrix: setup ## nine faults against five ways to write, ARGS="--runs 3" for each: out/spark-matrix/result.json and .md
	@$(RUN) $(PY) -m demo.matrix $(ARGS)

matrix: setup ## faults against a ledger on Kafka, 50 times each, ARGS="--runs 3 --only K4 --jobs 2" (--resume): out/matrix/result.md and .json
	@$(RUN) $(PY) -m tests.matrix $(ARGS)

bench: setup ## speed beside Redis and others, 20 minutes, ARGS=--short 2: out/bench/result.json, .md and .png
	@$(RUN) $(PY) -m bench $(ARGS)

scale: setup ## 100 million ids in one process, ARGS="--ids 300_000_000" for the figures of a billion: out/scale/
	@$(RUN) $(PY) -m bench.scale $(ARGS)

mutants: setup ## planted bugs, each turned red by a named test: out/mutants/result.json
	@$(RUN) $(PY) -m tests.mutants $(ARGS)

mutation: setup ## Cosmic Ray over a room of the service, ARGS="--room core" (--only claims): survivors in out/mutation/ROOM.csv
	@test -x .venv-mutation/bin/cosmic-ray || (python3 -m venv .venv-mutation && .venv-mutation/bin/pip install --quiet --require-hashes -r requirements/mutation.txt)
	@$(RUN) $(PY) -m tests.mutants.mutation $(ARGS)

soak: setup ## the kill loop, crashes and random walks for longer, from a seed of its own (ONCEGATE_SEED=n repeats one)
	@export ONCEGATE_SEED=$${ONCEGATE_SEED:-$$RANDOM} && export ONCEGATE_MODEL_SEED=$$ONCEGATE_SEED && \
	echo "ONCEGATE_SEED=$$ONCEGATE_SEED" && \
	$(RUN) ONCEGATE_KILLS=1000 ONCEGATE_WALKS=5000 ONCEGATE_MODEL_WALKS=2000 \
	$(PY) -m pytest -n $(WORKERS) --dist worksteal --timeout 14400 tests/faults tests/model $(ARGS)

fuzz: setup ## damaged bytes for each reader and both doors, nightly; ARGS="--examples 50_000 --seed 7 token": part of a name
	@$(RUN) $(PY) -m tests.fuzz $(ARGS)

audit: ## known vulnerabilities of what the lock files pin, by pip-audit in .venv-audit; what could not be asked is an error
	@test -x .venv-audit/bin/pip-audit || (python3 -m venv .venv-audit && .venv-audit/bin/pip install --quiet --require-hashes -r requirements/audit.txt)
	@for lock in service client dev; do .venv-audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements/$$lock.txt || exit 1; done

dist: setup ## wheels of both packages, checked by twine, installed into an empty environment, the demo run from there: dist/
	@test -x .venv-dist/bin/twine || (python3 -m venv .venv-dist && .venv-dist/bin/pip install --quiet --require-hashes -r requirements/dist.txt)
	@$(RUN) $(PY) -m scripts.dist $(ARGS)

versions: setup ## the version before, built from its commit: its client with this gateway, this client with its gateway, minutes
	@$(RUN) NEEDS_PREVIOUS=true $(PY) -m pytest tests/versions/test_across.py $(ARGS)

kafka: setup ## Apache Kafka on 127.0.0.1:9092 until Ctrl-C, ARGS="--brokers 3": from Maven Central's jars
	@$(RUN) $(PY) -m deploy.kafka $(ARGS)

docs: setup ## the pages as a site, warnings are errors: out/docs/index.html
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --quiet
	@echo out/docs/index.html

k8s: setup ## the Helm chart by Helm 4, kubeconform, kube-score and helm-unittest, which Go builds once, in minutes: ~/.cache/oncegate-tools
	@$(RUN) $(PY) -m deploy.k8s --tools
	@$(RUN) NEEDS_K8S=true $(PY) -m pytest -n $(WORKERS) tests/deploy/chart --ignore tests/deploy/chart/test_cluster.py --ignore tests/deploy/chart/test_nodes.py $(ARGS)

k8s-cluster: setup ## the chart on a real API server of Kubernetes, and on nodes of kwok, which Go builds once, in some ten minutes of a processor
	@$(RUN) $(PY) -m deploy.k8s --servers
	@$(RUN) NEEDS_K8S=true $(PY) -m pytest tests/deploy/chart/test_cluster.py tests/deploy/chart/test_nodes.py $(ARGS)

image: ## the container image
	docker build -t oncegate .

image-test: setup ## the image built and run, by Docker or buildah (apt: buildah, and mmdebstrap where its base cannot be pulled)
	@$(RUN) NEEDS_IMAGE=true $(PY) -m pytest tests/deploy/test_image.py $(ARGS)

clean: ## everything that make made, but wheels
	rm -rf .venv .venv-audit .venv-dist .venv-mutation out build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse
