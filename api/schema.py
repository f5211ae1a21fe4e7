"""Writes the description of the REST interface to `api/openapi.json`: `python -m headcount.api.schema`.

The file is kept in the repository, so that a change of the interface shows in review.
"""

import json
from pathlib import Path

from sqlalchemy import create_engine

from headcount.api.app import create_app, openapi
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store

FILE = Path(__file__).with_name("openapi.json")


def openapi_text() -> str:
    """What the file should hold."""
    nowhere = Settings(home=Path(), database_url="sqlite://", artifacts=Path())
    app = create_app(Store(create_engine(nowhere.database_url)), nowhere)
    return json.dumps(openapi(app), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(openapi_text(), encoding="utf-8")
