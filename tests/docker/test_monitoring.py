"""What Grafana draws and Prometheus asks for is what the service and the scheduler tell."""

import json
import re
from pathlib import Path

import yaml
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from headcount.api.app import create_app
from headcount.api.service import DEFAULT_PORT
from headcount.orchestrator.scheduling.metrics import StoreCollector
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store

MONITORING = Path(__file__).parents[2] / "docker/monitoring"


def test_every_figure_that_is_drawn_is_told_with_its_labels(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    client = TestClient(create_app(store, Settings(tmp_path, "", tmp_path)), base_url="http://127.0.0.1")
    client.get("/healthz")
    scheduler = CollectorRegistry()
    scheduler.register(StoreCollector(store, Waits()))
    labels: dict[str, set[str]] = {}
    for text in (client.get("/metrics").text, generate_latest(scheduler).decode()):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels.setdefault(sample.name, set()).update(sample.labels)
    store.close()
    panels = json.loads((MONITORING / "grafana.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 5
    for target in (target for panel in panels for target in panel["targets"]):
        (name,) = set(re.findall(r"headcount_\w+", target["expr"]))
        used = re.findall(r"by \(([\w, ]+)\)|\{(\w+)[!=]", target["expr"])
        used += [(label, "") for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])]
        wanted = {word for words in used for part in words for word in part.split(", ") if word}
        assert wanted <= labels[name], target["expr"]


def test_prometheus_asks_where_they_answer() -> None:
    jobs = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())["scrape_configs"]
    (service,) = jobs[0]["static_configs"][0]["targets"]
    assert service == f"api:{DEFAULT_PORT}"
    assert "credentials_file" in jobs[0]["authorization"]
    (scheduler,) = jobs[1]["static_configs"][0]["targets"]
    assert scheduler.startswith("127.0.0.1:")
