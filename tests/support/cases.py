"""Cases of a test as data: the JSON file beside it, by the name of the test."""

import json
from pathlib import Path
from typing import Any


def cases(test: str) -> dict[str, list[Any]]:
    """Read the cases of the tests in this file."""
    read: dict[str, list[Any]] = json.loads(Path(test).with_suffix(".json").read_text(encoding="utf-8"))
    return read
