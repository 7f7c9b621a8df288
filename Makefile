# Each target sets up what it needs: a .venv in this folder, from locked versions.
PYTHON_FILES := server memory extraction storage prompts tests benchmarks docs

.PHONY: demo test interop check fix lock docs clean

demo: .venv/.ready
	@.venv/bin/layerlore demo

test: .venv/.ready
	.venv/bin/python -m pytest -n auto --dist worksteal --ignore tests/interop

# What is long: random trials by the thousand, whole matrices, kills, the image, the benchmarks on little input. SEED
# gives the number that the trials begin with; each run takes another one and prints it.
.PHONY: soak
soak: .venv/.ready
	LAYERLORE_SOAK=$${SEED:-$$(date +%s)} .venv/bin/python -m pytest -n auto --dist worksteal --ignore tests/interop

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
	.venv/bin/python docs/generate_windows.py > docs/windows.md
	.venv/bin/python docs/generate_settings.py > docs/settings.md

clean:
	rm -rf .venv .interop tests/interop/node/node_modules .mypy_cache .pytest_cache .ruff_cache dist

.venv/.ready: pyproject.toml uv.lock requirements.txt
	@scripts/setup
