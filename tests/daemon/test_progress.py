"""What is said of each step of a dream."""

import json
from typing import Any

from daemon.progress import Step, tell

GATHERED = {"snapshot": json.dumps({"evidence": [{"id": "N1"}, {"id": "N2"}, {"id": "G1"}]})}


def test_a_step_that_a_resumed_dream_takes_over_is_said_as_any_other() -> None:
    values: dict[str, Any] = {}
    steps: list[Step] = []
    tell({"gather": GATHERED, "__metadata__": {"cached": True}}, values, steps.append)
    assert steps == [Step("gather", "2 notes, 1 questions")]
    assert values == GATHERED
