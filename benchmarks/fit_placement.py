"""Fit the weights by which state/document/placement.py finds the section of a note, on notes that people labelled.

    python -m benchmarks.fit_placement [--notes FILE] [--write]

Prints for each author and language of tests/state/document/corpora how many notes are placed by weights that were
fitted on the other authors, and on the other languages of all authors. The words of `[topics]` were written with
these notes in view, so that others, as docs/languages.md says, are placed less well. `--notes` measures the weights
that are in use on a file of other notes ({"text", "lang", "section", "author"}); `--write` fits on all and replaces
state/document/placement.json. Needs `uv pip install --group fit`.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from state.document import placement

_CORPORA = Path(__file__).resolve().parents[1] / "tests" / "state" / "document" / "corpora"
_FILE = Path(placement.__file__).with_name("placement.json")
_STRENGTH = 0.5  # of the weights: the inverse of how much each costs
_STEMS = 4.0  # stems count so many times their share
_LEAST_OFTEN = 3  # a stem that fewer notes have is not learnt


@dataclass(frozen=True, slots=True)
class Labelled:
    """A note, who wrote it, and the section that it belongs to."""

    corpus: str
    language: str
    text: str
    by_owner: bool
    section: str


def labelled(path: Path, corpus: str) -> list[Labelled]:
    """The notes of a file: a list, or one a line."""
    text = path.read_text(encoding="utf-8")
    rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    return [Labelled(corpus, row["lang"], row["text"], row.get("author") == "user", row["section"]) for row in rows]


def corpora() -> list[Labelled]:
    """All that is learnt from."""
    return [
        note
        for path in sorted(_CORPORA.glob("sections_*.jsonl"))
        for note in labelled(path, path.stem.removeprefix("sections_"))
    ]


def table(notes: Sequence[Labelled]) -> tuple[list[str], NDArray[np.float64]]:
    """The names of the features, and a row of them for each note."""
    found = [placement.features(note.text, by_owner=note.by_owner) for note in notes]
    often = Counter(name for one in found for name in one)
    names = sorted(name for name, times in often.items() if name[0] != "~" or times >= _LEAST_OFTEN)
    scale = np.array([_STEMS if name[0] == "~" else 1.0 for name in names])
    return names, np.array([[one.get(name, 0.0) for name in names] for one in found]) * scale


def fitted(values: NDArray[np.float64], wanted: NDArray[np.str_]) -> Any:  # noqa: ANN401
    """The model for these rows."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=_STRENGTH, max_iter=5_000).fit(values, wanted)


def written(model: Any, names: Sequence[str]) -> dict[str, dict[str, float]]:  # noqa: ANN401
    """The weights as `state.document.placement` reads them."""
    content = {}
    for section, start, weights in zip(model.classes_, model.intercept_, model.coef_, strict=True):
        scaled = (
            (name, weight * (_STEMS if name[0] == "~" else 1.0)) for name, weight in zip(names, weights, strict=True)
        )
        kept = {name: round(float(weight), 3) for name, weight in scaled if abs(weight) >= 0.01}
        content[str(section)] = {"": round(float(start), 3)} | kept
    return content


def shares(notes: Sequence[Labelled], right: NDArray[np.bool_], of: Callable[[Labelled], str]) -> str:
    """How many of each group are right."""
    groups = np.array([of(note) for note in notes])
    each = ", ".join(f"{group} {np.mean(right[groups == group]):.0%}" for group in dict.fromkeys(groups))
    return f"{each}; all {np.mean(right):.1%}"


def left_out(
    notes: Sequence[Labelled], values: NDArray[np.float64], of: Callable[[Labelled], str]
) -> NDArray[np.bool_]:
    """Whether each note is placed right by weights that saw nothing of its group."""
    groups, wanted = np.array([of(note) for note in notes]), np.array([note.section for note in notes])
    right = np.zeros(len(notes), dtype=bool)
    for group in set(groups):
        mine = groups == group
        right[mine] = fitted(values[~mine], wanted[~mine]).predict(values[mine]) == wanted[mine]
    return right


def main() -> None:
    """Print what is placed right when an author or a language is left out; write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.notes:
        notes = labelled(arguments.notes, "notes")
        placed = np.array([placement.placed(one.text, by_owner=one.by_owner) == one.section for one in notes])
        print(shares(notes, placed, lambda note: note.language))
        print(shares(notes, placed, lambda note: note.section))
        return
    notes = corpora()
    names, values = table(notes)
    by_author, by_language = (lambda note: note.corpus), (lambda note: note.language)
    for name, groups in (("author", by_author), ("language", by_language)):
        right = left_out(notes, values, groups)
        print(f"placed by weights that saw no note of the {name}")
        for corpus in sorted({note.corpus for note in notes}):
            mine = np.array([note.corpus == corpus for note in notes])
            print(f"  {corpus}: {shares([n for n in notes if n.corpus == corpus], right[mine], by_language)}")
    if arguments.write:
        model = fitted(values, np.array([note.section for note in notes]))
        content = written(model, names)
        _FILE.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
