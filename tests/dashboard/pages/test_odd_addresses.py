"""Whatever stands in the places of an address, the answer is a page or a problem, never a fault of ours."""

import re
from pathlib import Path

import pytest
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store

ODD = ("9" * 20, "-1", "0", "%00", "%ff", "..%2f..%2fetc", "a" * 300, "%25", "%F0%9F%98%80")


@pytest.mark.parametrize("odd", ODD)
def test_odd_names_and_numbers_are_no_faults(store: Store, tmp_path: Path, odd: str) -> None:
    app = create_service(store, Settings(tmp_path, str(store.engine.url), tmp_path / "artifacts"))
    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    walked = [
        r for r in iter_route_contexts(app.routes) if "{" in (r.path or "") and "GET" in (r.methods or ())
    ]
    assert len(walked) > 20
    for route in walked:
        path = re.sub(r"\{[^}]*\}", odd, route.path or "")
        if not path.endswith("/events"):
            answer = client.get(path, follow_redirects=False)
            assert answer.status_code < 500, (path, answer.text[:200])
