.PHONY: demo serve cluster test test-browser test-cluster drills test-gpu check format docs study-page package images audit
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
COPYLEFT := 'GPL-2.0-only;GPL-2.0-or-later;GPL-3.0-only;GPL-3.0-or-later;AGPL-3.0-only;AGPL-3.0-or-later;GNU General Public License v2 (GPLv2);GNU General Public License v3 (GPLv3);GNU Affero General Public License v3'

demo: $(VENV)/train.installed
	$(BIN)/headcount run sweeps/quickstart.yaml
	$(BIN)/headcount table quickstart
	$(BIN)/headcount report quickstart --out report.html
	@echo "The dashboard: make serve, then http://127.0.0.1:8321"
	@for archive in $(wildcard sweeps/*.tar.gz); do echo "A study to browse there: $(BIN)/headcount import $$archive"; done

serve: $(VENV)/train.installed
	$(BIN)/headcount serve

cluster: $(VENV)/dev.installed
	PYTHONPATH=tests $(BIN)/python -m cluster.keep

test: $(VENV)/dev.installed
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not browser and not cluster and not gpu and not drill"

test-browser: $(VENV)/dev.installed
	$(BIN)/pytest -m browser tests/browser

test-cluster: $(VENV)/cluster.installed
	$(BIN)/pytest -m cluster tests/docker tests/cluster tests/orchestrator/drills/test_leaving.py

drills: $(VENV)/dev.installed
	$(BIN)/pytest -m "drill or not drill" --timeout 3000 --durations 10 -v -rP tests/orchestrator/drills tests/orchestrator/artifacts/test_zombies.py tests/orchestrator/cluster/test_local_ray.py tests/orchestrator/submitting/test_running.py tests/orchestrator/scheduling/test_lease.py tests/api/test_stopping.py

test-gpu: $(VENV)/dev.installed
	$(BIN)/pytest tests/kernels tests/trainer tests/orchestrator/slots/test_freeing.py

check: $(VENV)/dev.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	mkdir -p $(VENV)/mypy && ln -sfn "$(CURDIR)" $(VENV)/mypy/headcount
	$(BIN)/mypy -p headcount.kernels -p headcount.trainer -p headcount.sweeps -p headcount.orchestrator -p headcount.api -p headcount.dashboard -m headcount.__main__
	$(BIN)/lint-imports

docs: $(VENV)/dev.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site: .site/index.html"

study-page: $(VENV)/train.installed
	$(BIN)/python docs/drawn.py docs/study.md README.md

package: $(VENV)/cluster.installed
	$(BIN)/pytest -m cluster tests/packaging

images: $(VENV)/dev.installed
	$(BIN)/pytest -m drill tests/images

audit: $(VENV)/audit.installed
	$(BIN)/pip-licenses --fail-on=$(COPYLEFT)
	$(BIN)/pip list --format=freeze --exclude-editable > $(VENV)/installed.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r $(VENV)/installed.txt

format: $(VENV)/dev.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headcount needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/train.installed: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(BIN)/pip install --quiet -c constraints.txt -e '.[train,service]'
	touch $@

$(VENV)/dev.installed: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/train.installed

$(VENV)/cluster.installed: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(BIN)/pip install --quiet -c constraints.txt -e '.[cluster]'
	touch $@ $(VENV)/dev.installed $(VENV)/train.installed

$(VENV)/audit.installed: pyproject.toml constraints.txt | $(VENV)/dev.installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[audit]'
	touch $@
