# Targets for development. The first one that runs installs its tools into .venv.

.DEFAULT_GOAL := words
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

BIN := .venv/bin
# As in the shell: commands that are printed are typed there.
TYPED := $(PATH)
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# The tests start hundreds of processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
# Playwright's own Node needs a library that a plain Debian lacks; the one in .venv does not.
export PLAYWRIGHT_NODEJS_PATH := $(CURDIR)/$(BIN)/node

# `make test webhooks` runs the tests of a subject: see tests/subject.py.
KNOWN := words demo test postgresql-18 interop reliability ha check format coverage fuzz bench bench-quick docs site outside-links translations screenshots lock package release
ifeq (test,$(firstword $(MAKECMDGOALS)))
NARROW := $(filter-out $(KNOWN),$(MAKECMDGOALS))
ifneq (,$(NARROW))
.PHONY: $(NARROW)
$(NARROW): ; @:
endif
endif

# One more than the two cores of CI: a third of the time, a test waits for a process or a browser.
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: $(KNOWN)

words:
	@echo 'make demo         run a scripted demo of all flows, then keep both servers running to try them'
	@echo 'make test         run all tests; make test webhooks runs those of webhooks'
	@echo 'make interop      test presets and quickstarts with Spring Boot, oauth2-proxy, nginx, Apache, Go, Next.js, Ruby and JupyterHub'
	@echo 'make races        race revocations against token requests, 100 rounds; ROUNDS=10 for fewer'
	@echo 'make postgresql-18  run the storage conformance suite, migrations and races on PostgreSQL 18'
	@echo 'make ha           run three machines with PostgreSQL under Patroni and two nodes, on loopback'
	@echo 'make reliability  inject faults under load; writes docs/explanation/reliability.md'
	@echo 'make check        check style, types, import contracts and spelling'
	@echo 'make format       format the code'
	@echo 'make coverage     run all tests and list the lines that none of them reached'
	@echo 'make fuzz         compare the HTTP parser with h11 on a million random connections; 15 minutes'
	@echo 'make bench        benchmark Valetkey and other servers on this machine; KEEP=1 keeps the results'
	@echo 'make bench-quick  check for performance regressions; AGAINST=COMMIT measures that commit first'
	@echo 'make docs         regenerate the reference pages, then build the site'
	@echo 'make site         build the documentation site that the server shows under /docs/'
	@echo 'make outside-links  ask every link of the documentation that leads to another site'
	@echo 'make translations update the translation catalogues; lists texts without a translation'
	@echo 'make screenshots  take screenshots of every page into build/screenshots; needs Chromium'
	@echo 'make lock         update the lock files after a change of pyproject.toml; NEWER=1 upgrades versions'
	@echo 'make package      make everything that a release has in build/package, and try it in empty environments'
	@echo 'make release VERSION=0.2.0   check, test, build and tag a release; KEY=file signs it with an SSH key'

demo: .venv/.runtime
	@PATH='$(TYPED)' $(BIN)/valetkey demo --walk --stay

test: .venv/.dev tests/clients/node_modules/.stamp
	@$(BIN)/python -m $(if $(NARROW),tests.subject $(NARROW),pytest $(PARALLEL))

interop: .venv/.dev
	@$(BIN)/python -m pytest tests/clients/interop/*.py

races: .venv/.dev
	@VALETKEY_RACES=$(or $(ROUNDS),100) $(BIN)/python -m pytest -s tests/stories/processes/test_races.py

# One core for each file; SQLite and PgBouncer are the same with every PostgreSQL.
postgresql-18: .venv/.dev
	@VALETKEY_TEST_NEWEST_POSTGRES=1 $(BIN)/python -m pytest -n 2 --dist loadfile \
		-k 'not sqlite and not pooler and not standby' \
		tests/conformance/test_postgres.py tests/conformance/test_storage.py \
		tests/conformance/test_version.py tests/database/test_migrate.py \
		tests/database/test_self_test.py tests/stories/processes/test_races.py

reliability: .venv/.dev
	@$(BIN)/python -m tests.reliability $(if $(ONLY),--only $(ONLY)) $(if $(TIMES),--times $(TIMES))

ha: .venv/.dev
	@$(BIN)/python -m tests.reliability.cluster

check: .venv/.dev
	@.ci/check

format: .venv/.dev
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

coverage: .venv/.dev tests/clients/node_modules/.stamp
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(PARALLEL)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

fuzz: .venv/.dev
	@$(BIN)/python -m tests.web.model

bench: .venv/.runtime
	@$(BIN)/python -m bench $(if $(KEEP),--keep) $(if $(NOTE),--note '$(NOTE)')

bench-quick: .venv/.runtime
	@$(BIN)/python -m bench --quick --rounds 5 --seconds 0.6 $(if $(KEEP),--keep) $(if $(AGAINST),--against $(AGAINST))

translations: .venv/.dev
	@$(BIN)/python -m docs.translations

screenshots: .venv/.dev
	@$(BIN)/python -m docs.screenshots
	@$(BIN)/python -m docs.demo_pictures
	@$(BIN)/python -m pytest -q tests/stories/people/test_walk.py

docs: .venv/.dev
	@$(BIN)/python -m docs.generate
	@$(BIN)/python -m docs.site

site: .venv/.dev
	@$(BIN)/python -m docs.site

outside-links:
	@python3 -m docs.outside

COMPILE = $(BIN)/uv pip compile --quiet pyproject.toml --generate-hashes \
	--no-emit-index-url --no-header --python-version 3.11 $(if $(NEWER),--upgrade)
lock: .venv/.dev
	@$(COMPILE) --extra postgres --group build --output-file requirements.lock
	@$(COMPILE) --extra postgres --extra acme --extra otel --group dev --constraints requirements.lock --output-file requirements-dev.lock
	@$(COMPILE) --group build --group site --constraints requirements-dev.lock --output-file docs/site.lock
	@cd tests/clients && npm install --package-lock-only --loglevel=error
	@git --no-pager diff --stat -- '*.lock' '*-lock.json'

package: .venv/.dev tests/clients/node_modules/.stamp
	@$(BIN)/python -m release.package $(if $(BASE),--base $(BASE))

release: .venv/.dev tests/clients/node_modules/.stamp
	@$(BIN)/python -m release $(VERSION) $(if $(KEY),--key $(KEY))

.venv/.runtime: requirements.lock .ci/install
	@.ci/install $(if $(wildcard .venv/.dev),dev,runtime)

.venv/.dev: requirements-dev.lock .ci/install
	@.ci/install dev

# Third-party clients for the tests, run by the Node of the lock file.
tests/clients/node_modules/.stamp: tests/clients/package-lock.json .venv/.dev
	@cd tests/clients && npm ci --loglevel=error --ignore-scripts && touch node_modules/.stamp
