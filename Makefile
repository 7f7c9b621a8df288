# Each target sets up what it needs: a .venv in this folder, from locked versions.
PYTHON_FILES := server memory extraction storage prompts tests benchmarks docs examples

# Bytecode is kept wherever this runs: without it each process that the tests start compiles all modules again, and each
# of pytest's workers rewrites the assertions of all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test interop check fix lock docs clean

demo: .venv/.ready
	@.venv/bin/layerlore demo

test: .venv/.ready
	.venv/bin/python -m pytest -n auto --dist worksteal --ignore tests/interop

# What is long: random trials by the thousand, whole matrices, kills, the image, the benchmarks on little input. SEED
# gives the number that the trials begin with; each run takes another one and prints it. SOAK_MINUTES bounds it: each
# test then draws its share of the trials, and none begins later.
.PHONY: soak
soak: .venv/.ready
	LAYERLORE_SOAK=$${SEED:-$$(date +%s)} LAYERLORE_SOAK_MINUTES=$${SOAK_MINUTES:-} .venv/bin/python -m pytest --timeout 3600 -rs -n auto --dist worksteal --ignore tests/interop

# Clients and checkers that others wrote, each in its locked version; without a network once they are installed.
interop: .venv/.ready
	@scripts/setup-interop
	LAYERLORE_TEST_INTEROP=1 .venv/bin/python -m pytest -n auto --dist worksteal tests/interop

# Every Python framework of docs/clients.md, while `make interop` runs four.
.PHONY: interop-all
interop-all: .venv/.ready
	.venv/bin/python tests/interop/python_environments.py all
	LAYERLORE_TEST_INTEROP=all .venv/bin/python -m pytest -n auto --dist worksteal tests/interop/test_python_frameworks.py

check: .venv/.ready
	.venv/bin/ruff format --check $(PYTHON_FILES)
	.venv/bin/ruff check $(PYTHON_FILES)
	.venv/bin/mypy

fix: .venv/.ready
	.venv/bin/ruff format $(PYTHON_FILES)
	.venv/bin/ruff check --fix $(PYTHON_FILES)

lock:
	.venv/bin/uv lock
	.venv/bin/uv export --quiet --frozen --no-emit-project --group dev --extra english --no-header --no-annotate -o requirements.txt
	.venv/bin/uv export --quiet --frozen --no-emit-project --no-dev --no-header --no-annotate -o requirements-server.txt
	.venv/bin/python tests/interop/python_environments.py lock

docs: .venv/.ready
	.venv/bin/python docs/generate_tools.py > docs/tools.md
	.venv/bin/python docs/generate_rights.py > docs/http.new && mv docs/http.new docs/http.md
	.venv/bin/python docs/generate_windows.py > docs/windows.md
	.venv/bin/python docs/generate_settings.py table > docs/settings.md
	.venv/bin/python docs/generate_settings.py sqlite > configs/sqlite.toml
	.venv/bin/python docs/generate_settings.py postgres > configs/postgres.toml
	.venv/bin/python docs/generate_settings.py readme > configs/README.new && mv configs/README.new configs/README.md
	.venv/bin/python docs/generate_counterparts.py > docs/counterparts.new && mv docs/counterparts.new docs/counterparts.md
	.venv/bin/python docs/generate_architecture.py > docs/architecture.svg

clean:
	rm -rf .venv .interop tests/interop/node/node_modules .mypy_cache .pytest_cache .ruff_cache dist

.venv/.ready: pyproject.toml uv.lock requirements.txt
	@scripts/setup
