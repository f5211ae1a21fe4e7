"""Every kind of error that the service answers is explained where its `type` leads."""

import ast
from pathlib import Path

from fastapi.testclient import TestClient

import headcount
from headcount.api.problem_types import TYPES

ANSWERS = {"Problem": 1, "TokenNeeded": 0, "Refusal": 1, "problem_response": 2}
"""Where each takes its code."""


def answered_codes() -> set[str]:
    """Every code that stands in the service's source, and those of the framework's own errors."""
    codes = {"not_found", "method_not_allowed", "content_too_large"}
    for file in (Path(headcount.__file__).parent / "api").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            position = ANSWERS.get(getattr(node.func, "id", "")) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and position is not None and len(node.args) > position:
                argument = node.args[position]
                codes |= {argument.value} if isinstance(argument, ast.Constant) else set()
    return codes  # type: ignore[return-value]


def test_every_code_is_explained_and_no_other() -> None:
    assert answered_codes() == set(TYPES)


def test_the_type_leads_to_the_explanation(client: TestClient) -> None:
    for answer in (client.get("/nowhere"), client.get("/api/v1/sweeps?x=1"), client.post("/healthz")):
        problem = answer.json()
        assert client.get(problem["type"]).json() == {
            "code": problem["code"],
            "meaning": TYPES[problem["code"]],
        }
    listed = client.get("/api/v1/problems").json()["items"]
    assert {item["code"]: item["meaning"] for item in listed} == TYPES
    answer = client.get("/api/v1/problems/not_fuond")
    assert (answer.status_code, "did you mean 'not_found'" in answer.json()["detail"]) == (404, True)
