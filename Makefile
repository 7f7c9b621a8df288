# Each target sets up what it needs: a .venv in this folder, from locked versions.
PYTHON_FILES := server memory extraction storage prompts tests benchmarks docs examples scripts plugins
# The words in these folders are of many languages, so their spelling is not checked.
SPELLED_FILES := $(filter-out memory tests benchmarks,$(PYTHON_FILES)) configs $(wildcard *.md)

# Bytecode is kept wherever this runs: without it each process that the tests start compiles all modules again, and each
# of pytest's workers rewrites the assertions of all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-programs interop check fix lock docs clean

demo: .venv/.ready
	@.venv/bin/layerlore demo

test: .venv/.ready
	.venv/bin/python -m pytest -n auto --dist worksteal -m "not programs" --ignore tests/interop --ignore tests/explorer

# What takes long, since it starts whole programs (servers, commands, chats, the steps of the guides) or measures how work
# grows with its text.
test-programs: .venv/.ready
	.venv/bin/python -m pytest -n auto --dist worksteal -m programs --ignore tests/interop --ignore tests/explorer

# What is long: random trials by the thousand, whole matrices, kills, the image, the benchmarks on little input. SEED
# gives the number that the trials begin with; each run takes another one and prints it. SOAK_MINUTES bounds it: each
# test then draws its share of the trials, and none begins later.
.PHONY: soak
soak: .venv/.ready
	LAYERLORE_SOAK=$${SEED:-$$(date +%s)} LAYERLORE_SOAK_MINUTES=$${SOAK_MINUTES:-} .venv/bin/python -m pytest --timeout 3600 -rs -n auto --dist worksteal --ignore tests/interop --ignore tests/explorer

# Clients and checkers that others wrote, each in its locked version; without a network once they are installed.
interop: .venv/.ready
	@scripts/setup-interop
	LAYERLORE_TEST_INTEROP=1 .venv/bin/python -m pytest -n auto --dist worksteal tests/interop

# Every Python framework of docs/clients.md, while `make interop` runs four.
.PHONY: interop-all
interop-all: .venv/.ready
	.venv/bin/python tests/interop/python_environments.py all
	LAYERLORE_TEST_INTEROP=all .venv/bin/python -m pytest -n auto --dist worksteal tests/interop/test_python_frameworks.py

# Whether a memory shows what is true and loses nothing: all cases. OPTIONS="--quick" takes a fifth of them.
.PHONY: truth
truth: .venv/.ready
	.venv/bin/python -m benchmarks.truth --check $(OPTIONS)

check: .venv/.ready
	.venv/bin/ruff format --check $(PYTHON_FILES)
	.venv/bin/ruff check $(PYTHON_FILES)
	.venv/bin/mypy
	.venv/bin/codespell $(SPELLED_FILES)

# The lines that the fast tests run, without those of the processes that they start. The report is in .coverage-html/.
.PHONY: coverage
coverage:
	PYTEST_ADDOPTS="$$PYTEST_ADDOPTS --cov --cov-report term:skip-covered --cov-report html:.coverage-html" $(MAKE) test

fix: .venv/.ready
	.venv/bin/ruff format $(PYTHON_FILES)
	.venv/bin/ruff check --fix $(PYTHON_FILES)

lock:
	.venv/bin/uv lock
	.venv/bin/uv export --quiet --frozen --no-emit-project --group dev --extra english --extra metrics --no-header --no-annotate -o requirements.txt
	.venv/bin/uv export --quiet --frozen --no-emit-project --no-dev --extra metrics --no-header --no-annotate -o requirements-server.txt
	.venv/bin/python tests/interop/python_environments.py lock

# The explorer's page, from explorer/: one file that is committed, so that nobody needs Node to use it.
.PHONY: explorer
explorer: explorer/node_modules/.made-from
	npm run --prefix explorer --silent types
	npm run --prefix explorer --silent build

# No package's own scripts are run; what its lock did not change stays as it is.
explorer/node_modules/.made-from: explorer/package-lock.json
	npm ci --prefix explorer --ignore-scripts --no-audit --no-fund --loglevel=error
	cp $< $@

# The page in a browser, on both databases: Node 20 or newer and Debian's Chromium, which is installed where apt may.
.PHONY: explorer-test
explorer-test: .venv/.ready explorer/node_modules/.made-from
	@scripts/setup-explorer
	npm run --prefix explorer --silent types
	LAYERLORE_TEST_EXPLORER=1 .venv/bin/python -m pytest -n 2 --dist worksteal -rP tests/explorer

# The pictures that the views are compared with, taken anew.
.PHONY: explorer-pictures
explorer-pictures: .venv/.ready explorer/node_modules/.made-from
	@scripts/setup-explorer
	LAYERLORE_TEST_EXPLORER=1 EXPLORER_BASELINES=new .venv/bin/python -m pytest tests/explorer -k looks_as_it_did

docs: .venv/.ready
	.venv/bin/python docs/generate_own_tools.py > memory/text/own_tools.new && mv memory/text/own_tools.new memory/text/own_tools.json
	.venv/bin/python docs/generate_tools.py > docs/tools.md
	.venv/bin/python docs/generate_rights.py > docs/http.new && mv docs/http.new docs/http.md
	.venv/bin/python docs/generate_windows.py > docs/windows.md
	.venv/bin/python docs/generate_settings.py table > docs/settings.md
	.venv/bin/python docs/generate_settings.py sqlite > configs/sqlite.toml
	.venv/bin/python docs/generate_settings.py postgres > configs/postgres.toml
	.venv/bin/python docs/generate_settings.py readme > configs/README.new && mv configs/README.new configs/README.md
	.venv/bin/python docs/generate_counterparts.py > docs/counterparts.new && mv docs/counterparts.new docs/counterparts.md
	.venv/bin/python docs/generate_architecture.py > docs/architecture.svg
	.venv/bin/python docs/generate_plugins.py

# A file that Claude Desktop installs: docs/plugins.md.
.PHONY: bundle
bundle: .venv/.ready
	.venv/bin/python plugins/make_bundle.py

# Builds and checks a release, writes its changelog's section, commits and tags; stops before the upload.
.PHONY: release
release: .venv/.ready
	UV_PROJECT_ENVIRONMENT=.interop/release .venv/bin/uv sync --quiet --frozen --no-install-project --only-group release
	@.venv/bin/python scripts/release.py $(VERSION) $(OPTIONS)

# The documentation as a site, in site/: strict, and without a network once its own environment is there.
.PHONY: site
site: .venv/.ready
	UV_PROJECT_ENVIRONMENT=.interop/site .venv/bin/uv sync --quiet --frozen --no-install-project --only-group site
	NO_MKDOCS_2_WARNING=1 .interop/site/bin/mkdocs build --strict

clean:
	rm -rf .venv .interop site .coverage .coverage-html tests/interop/node/node_modules tests/interop/hosts/node_modules explorer/node_modules .explorer-shots .mypy_cache .pytest_cache .ruff_cache dist

.venv/.ready: pyproject.toml uv.lock requirements.txt
	@scripts/setup
