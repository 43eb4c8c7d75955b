"""A scripted model that revises the line a note updates, and adds all other notes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from tests.support.model_characters import inputs_of, lines_of
from tests.support.scripted_model import Script, ScriptedModel


def revising(newer: Mapping[str, str], words: Mapping[str, str]) -> Script:
    """Return a script; `newer` maps a note's text to the beginning of the line that it replaces.

    `words` has the lines that say a note in other words.
    """

    def answer(request: dict[str, Any], _number: int) -> dict[str, Any]:
        lines = {text: (name, pinned) for name, pinned, text in lines_of(request)}
        operations, notes = list[dict[str, Any]](), [one for one in inputs_of(request) if one[0].startswith("N")]
        for name, _, text in notes:
            old = next((line for line in lines if newer.get(text) and line.startswith(newer[text])), None)
            said = words.get(text, text)
            if old is not None:
                operations.append({"op": "revise", "line": lines[old][0], "text": said, "cites": [name]})
            elif said not in lines:
                section = "The Bond" if said.startswith("Ada ") else "Active Context"
                operations.append({"op": "add", "section": section, "text": said, "cites": [name]})
        return {"operations": operations, "consumed": [name for name, *_ in notes]}

    return answer


@contextmanager
def revises(newer: Mapping[str, str], words: Mapping[str, str] = MappingProxyType({})) -> Iterator[ScriptedModel]:
    """Configure the model for this process and the processes it starts."""
    with ScriptedModel(revising(newer, words)) as model, patch.dict(os.environ, model.variables):
        yield model
