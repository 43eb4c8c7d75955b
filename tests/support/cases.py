"""Cases of a test as data, in a JSON file with the test file's name."""

import json
from pathlib import Path
from typing import Any


def cases(test: str) -> Any:
    """Return the cases for the tests in this file."""
    return json.loads(Path(test).with_suffix(".json").read_text(encoding="utf-8"))
