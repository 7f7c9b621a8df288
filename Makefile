# Each target sets up what it needs: a .venv in this folder, from locked versions.
PYTHON_FILES := server memory extraction storage prompts tests benchmarks docs

.PHONY: demo test check fix lock docs clean

demo: .venv/.ready
	@.venv/bin/memstrata demo

test: .venv/.ready
	.venv/bin/python -m pytest -n auto --dist worksteal

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

docs: .venv/.ready
	.venv/bin/python docs/generate_tools.py > docs/tools.md
	.venv/bin/python docs/generate_windows.py > docs/windows.md

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache dist

.venv/.ready: pyproject.toml uv.lock requirements.txt
	@scripts/setup
