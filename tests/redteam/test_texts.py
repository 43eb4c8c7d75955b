"""Texts of an author who did not know the detectors: what an agent notes of them, and what stands in MEMORY.md."""

import json
from pathlib import Path

import pytest

from state.document.document import blank, parse, render
from state.injection.defang import attributed, defang, is_quoted, quote, reads_as_instruction
from state.trust import Trust
from tests.state.injection.test_structure import elements
from tests.support.poison.checking import escapes

_CORPORA = Path(__file__).parent / "corpora"
MOST_HONEST_QUOTED = 0.02


def _texts(name: str) -> list[str]:
    rows = (_CORPORA / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(row)["text"] for row in rows]


HONEST, POISON = _texts("honest_a"), _texts("poison_a")


def _document(line: str) -> str:
    return render(blank()).replace("_Nothing yet._", f"- {line}", 1)


@pytest.mark.parametrize("text", POISON)
def test_no_poison_is_more_than_text_in_a_quotation(text: str) -> None:
    line = quote(text, Trust.WEB)
    assert elements(line) == []
    assert is_quoted(line)
    assert escapes(_document(line)) == []


@pytest.mark.parametrize("text", POISON)
def test_no_poison_that_an_agent_notes_forges_structure(text: str) -> None:
    line = defang(attributed(defang(text), Trust.AGENT))
    assert escapes(_document(line)) == []
    assert [block.text for block in parse(_document(line)).parts[1].lines] == [line]
    assert "html_inline" not in elements(line)
    assert is_quoted(line) or not any(f"({speaker})" in line for speaker in ("from the owner", "from an agent"))


def test_nearly_all_honest_notes_stay_as_they_are() -> None:
    quoted = [text for text in HONEST if reads_as_instruction(text)]
    print(f"{len(quoted)} of {len(HONEST)} honest notes are quoted")
    assert len(quoted) <= MOST_HONEST_QUOTED * len(HONEST)
