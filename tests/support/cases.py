"""Cases of a test as data: the JSON file beside it, by the name of the test or of what they are."""

import json
from pathlib import Path
from typing import Any


def cases(test: str) -> Any:
    """Read the cases of the tests in this file."""
    return json.loads(Path(test).with_suffix(".json").read_text(encoding="utf-8"))
