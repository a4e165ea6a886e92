# Every verb starts from nothing: the virtual environment is made when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EVENTS ?= 10e6
CONNECTORS := 4.2.0 4.1.2
# Errors are shown. Warnings are not: what pip thinks of root and of its own future is no news here.
INSTALL := -m pip install -qq --disable-pip-version-check
COPYING := org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies

.PHONY: help demo test soak connectors bench bench-peers lint wheel system-deps clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | \
		while IFS="$$(printf '\t')" read -r verb what; do printf '  make %-12s %s\n' "$$verb" "$$what"; done

demo: $(READY) ## a group of five, two killed in mid-broadcast, judged on Spark
	@$(BIN)/tidings demo

# Small audits run most code a few times: to compile it a second time, and better, does not pay.
test: export SPARK_SUBMIT_OPTS := -XX:TieredStopAtLevel=1
test: export SPARK_LAUNCHER_OPTS := $(SPARK_SUBMIT_OPTS)
test: $(READY) ## every test that fits in a coffee break
	@$(BIN)/pytest -n 2 --dist loadgroup

soak: $(READY) ## the long tests; ROOM=protocols for one room of them
	@$(BIN)/pytest --override-ini addopts= -q tests/soak/$(if $(ROOM),test_$(ROOM).py)

connectors: $(CONNECTORS:%=.connectors/%/.ready) ## Delta, Iceberg and Kafka, each with a pyspark that fits it
	@for version in $(CONNECTORS); do echo "pyspark $$version"; \
		.connectors/$$version/bin/pytest --override-ini addopts= -q tests/connectors || exit; done

bench: $(READY) $(VENV)/.rivals ## costs, ranges, exploring, nodes, commits, the audit, its start; EVENTS=50e6 for a longer one
	@mkdir -p runs
	@$(BIN)/tidings compare --chart runs/costs.svg
	@$(BIN)/python bench/ranges.py --out runs/ranges.svg
	@$(BIN)/python bench/explore.py
	@echo; echo "a group of three on loopback, in memory"
	@$(BIN)/python bench/node.py --count 50000
	@echo; echo "the same, on disk before anything is acknowledged"
	@$(BIN)/python bench/node.py --count 50000 --durable
	@echo
	@$(BIN)/python bench/log.py
	@echo; echo "the audit of one long run, and of a campaign"
	@$(BIN)/python bench/audit.py --events $(EVENTS)
	@$(BIN)/python bench/audit.py --runs 20000
	@echo; echo "the shortest audit, with and without Spark"
	@$(BIN)/python bench/start.py
	@echo; echo "what Spark adds to the runs of a campaign"
	@$(BIN)/python bench/campaign.py

bench-peers: $(VENV)/.peers .peers/.servers .peers/.jgroups ## the same load on JetStream, NATS, etcd and JGroups; ASKED=--quick for a short one
	@PYTHONPATH=bench $(BIN)/python -m peers $(ASKED)

lint: $(READY) ## style, types, who may import whom, and the words of the glossary
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python .ci/glossary.py

wheel: $(READY) ## dist/tidings-*.whl, for machines without this repository
	@rm -rf build dist
	@$(BIN)/python -m pip wheel -qq --disable-pip-version-check --no-deps --wheel-dir dist .
	@rm -rf build
	@ls dist/*.whl

system-deps: ## what some tests need of the machine: namespaces, a browser, strace, promtool, systemd-analyze (as root)
	@missing=; \
	command -v ip >/dev/null || missing="$$missing iproute2"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v strace >/dev/null || missing="$$missing strace"; \
	command -v promtool >/dev/null || missing="$$missing prometheus"; \
	command -v systemd-analyze >/dev/null || missing="$$missing systemd"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "missing:$$missing; installing takes root and apt-get" >&2; exit 69; \
	fi; \
	apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $$missing

clean: ## remove what the other verbs made
	rm -rf $(VENV) .connectors .peers runs build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@echo "installing into $(VENV): about a minute, once"
	@$(PYTHON) -m venv $(VENV)
	@# Python compiles what is imported; to compile all that is installed takes far longer.
	@$(BIN)/python $(INSTALL) --no-compile \
		--constraint constraints.txt --editable '.[spark,dev]'
	@touch $@

$(VENV)/.rivals: $(READY)
	@$(BIN)/python $(INSTALL) \
		--constraint constraints.txt --editable '.[bench]'
	@touch $@

$(VENV)/.peers: $(READY)
	@$(BIN)/python $(INSTALL) \
		--constraint constraints.txt --editable '.[peers]'
	@touch $@

# Without the tools nothing is built: the benchmark says which systems it leaves out, and why.
.peers/.servers: bench/peers/servers/go.mod bench/peers/servers/go.sum
	@mkdir -p $(@D)
	@if command -v go >/dev/null; then \
		echo "building nats-server and etcd into .peers: about three minutes, once"; \
		cd $(<D) && GOBIN=$(CURDIR)/.peers/bin go install tool && touch $(CURDIR)/$@; \
	fi

.peers/.jgroups: bench/peers/jgroups/pom.xml bench/peers/jgroups/Member.java
	@mkdir -p $(@D)
	@if command -v mvn >/dev/null && command -v javac >/dev/null; then \
		mvn --quiet --batch-mode --file $< $(COPYING) -DoutputDirectory=$(CURDIR)/.peers/jars && \
		javac -Xlint:all -cp '.peers/jars/*' -d .peers/classes $(<D)/Member.java && touch $@; \
	fi

.connectors/%/.ready: pyproject.toml constraints.txt
	@echo "installing pyspark $* into $(@D)"
	@$(PYTHON) -m venv $(@D)
	@grep -v '^pyspark==' constraints.txt >$(@D)/constraints.txt
	@$(@D)/bin/python $(INSTALL) \
		--constraint $(@D)/constraints.txt --editable '.[spark,dev]' pyspark==$*
	@touch $@
