"""What is said of each step of a dream."""

import json
from typing import Any

import pytest

from daemon.dream.progress import Step, report_nodes

GATHERED = {"snapshot": json.dumps({"evidence": [{"id": "N1"}, {"id": "N2"}, {"id": "G1"}]})}


def test_a_step_that_a_resumed_dream_takes_over_is_said_as_any_other() -> None:
    values: dict[str, Any] = {}
    steps: list[Step] = []
    report_nodes({"gather": GATHERED, "__metadata__": {"cached": True}}, values, "auto", steps.append)
    assert steps == [Step("gather", "2 notes, 1 questions")]
    assert values == GATHERED


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("auto", [Step("commit", "version 5")]),
        ("propose", [Step("propose", "it waits for 'dreamd review'")]),
        ("dry", []),
    ],
)
def test_only_what_is_committed_is_told_as_a_commit(mode: str, expected: list[Step]) -> None:
    steps: list[Step] = []
    report_nodes({"commit": {"record": json.dumps({"number": 5})}}, {}, mode, steps.append)
    assert steps == expected
