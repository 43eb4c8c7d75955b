"""Fit the weights by which state/secrets/told/judge.py tells a secret from other words, by tests/redteam/corpora.

    python -m benchmarks.fit_secrets [--write]

Prints for each author how many secrets and texts are caught, and how much harmless is changed, by weights that were
fitted on the texts of the others: what a reader may expect of texts that nobody fitted on. The threshold comes from
the same scores. `--write` fits on all and replaces state/secrets/told/weights.json.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from state.secrets import redaction
from state.secrets.told import judge
from state.secrets.told.candidates import Candidate, candidates
from state.secrets.told.context import spoken_of
from state.secrets.told.evidence import has_evidence
from state.secrets.told.judge import features
from tests.redteam.corpus import CORPORA, drawn
from tests.redteam.facts import LEARNT, facts

_FILE = Path(judge.__file__).with_name("weights.json")
_LEAST_SEEN, _LEAST_WEIGHT, _DECIMALS = 8, 0.02, 2
# Changing a word beside a secret costs less than changing a harmless text.
_HARMLESS, _SECRET, _BESIDE, _FACTS = 1.5, 1.0, 0.3, 0.5
_PENALTY, _STEPS = 1.0, 260
# So many of the harmless texts of an author who was not learnt from may be changed.
_RATE = 0.0035
# Sentences as anybody says them are always learnt from, and never measured.
_PLAIN_AUTHORS = ("plain", "notes", "facts")
_AUTHORS = ("a", "b", "c", "d")
_EACH = 4  # of the forms of facts
_SAME = 0.75
_LOWEST = -99.0


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a corpus. `spans`: its secrets; `found`: what is redacted without the judge."""

    author: str
    language: str
    harmless: bool
    spans: tuple[tuple[int, int], ...]
    found: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate of the text of a number, and whether it is a secret."""

    names: frozenset[str]
    start: int
    end: int
    text: int
    secret: bool


def read(authors: Sequence[str]) -> tuple[list[Text], list[Row]]:
    """Return all texts of the authors, and their candidates."""
    texts, rows = list[Text](), list[Row]()
    for author in authors:
        for file in (CORPORA / f"{name}_{author}.jsonl" for name in ("secrets", "harmless")):
            for _, language, text, spans in drawn(file) if file.exists() else ():
                found = tuple((one.start, one.end) for one in redaction.redact(text, judge=_never).found)
                texts.append(Text(author, language, file.name.startswith("harmless"), spans, found))
                rows += _rows(text, texts[-1], len(texts) - 1)
    for text in facts(LEARNT, seed=1, each=_EACH):
        texts.append(Text("facts", "en", harmless=True, spans=(), found=()))
        rows += _rows(text, texts[-1], len(texts) - 1)
    return texts, rows


def _never(_text: str, _one: Candidate) -> bool:
    return False


def _rows(text: str, of: Text, number: int) -> Iterator[Row]:
    for one in candidates(text, spoken_of(text)):
        if not has_evidence(text, one):
            continue
        same = max((_overlap(span, (one.start, one.end)) for span in of.spans), default=0.0)
        partly = same > 0 or any(_overlap(span, (one.start, one.end)) for span in of.found)
        if same >= _SAME or of.harmless or not partly:
            yield Row(frozenset(features(text, one)), one.start, one.end, number, same >= _SAME)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, shared) / (max(one[1], other[1]) - min(one[0], other[0]))


class Fit:
    """A logistic regression over the candidates: weights for the names of what is noticed."""

    def __init__(self, texts: Sequence[Text], rows: Sequence[Row]) -> None:
        seen = Counter(name for row in rows for name in row.names)
        self.names = sorted(name for name, count in seen.items() if count >= _LEAST_SEEN)
        columns = {name: column for column, name in enumerate(self.names)}
        self._matrix = np.zeros((len(rows), len(self.names) + 1), np.float32)
        for number, row in enumerate(rows):
            self._matrix[number, [columns[name] for name in row.names if name in columns] + [-1]] = 1
        self._secret = np.array([row.secret for row in rows], np.float32)
        self._costs = np.array([_cost(texts[row.text], row) for row in rows], np.float32)

    def weights(
        self, among: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    ) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
        """Fit the weights, the last one for all, by Adam from zero: the same for the same rows."""
        matrix, secret, costs = self._matrix[among], self._secret[among], self._costs[among]
        weights = np.zeros(matrix.shape[1], np.float32)
        first, second = weights.copy(), weights.copy()
        for step in range(1, _STEPS):
            slope = matrix.T @ (costs * (1 / (1 + np.exp(-(matrix @ weights))) - secret))
            slope[:-1] += _PENALTY * weights[:-1]
            first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
            size = 0.1 if step < 0.7 * _STEPS else 0.03
            weights -= size * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.99**step)) + 1e-6)
        return weights

    def left_out(self, authors: Sequence[str]) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
        """Return the score of each candidate by weights that were fitted on the other authors'."""
        of = np.array(authors)
        scores = np.full(len(of), _LOWEST, np.float32)
        for author in _AUTHORS:
            scores[of == author] = self._matrix[of == author] @ self.weights(of != author)
        return scores


def _cost(text: Text, row: Row) -> float:
    share = _FACTS if text.author == "facts" else 1.0
    return share * (_HARMLESS if text.harmless else _SECRET if row.secret else _BESIDE)


def threshold(texts: Sequence[Text], rows: Sequence[Row], scores: Sequence[float]) -> float:
    """Return the least score at which few enough harmless texts are changed, with or without the judge."""
    highest = _highest(rows, scores)
    harmless = [number for number, text in enumerate(texts) if text.harmless and text.author in _AUTHORS]
    reached = sorted((highest[number] for number in harmless if not texts[number].found), reverse=True)
    return reached[max(0, int(_RATE * len(harmless)) - (len(harmless) - len(reached)))]


def _highest(rows: Sequence[Row], scores: Sequence[float]) -> dict[int, float]:
    """Return the highest score of the candidates of each text, by its number."""
    highest: dict[int, float] = defaultdict(lambda: _LOWEST)
    for row, score in zip(rows, scores, strict=True):
        highest[row.text] = max(highest[row.text], float(score))
    return highest


def caught(texts: Sequence[Text], rows: Sequence[Row], scores: Sequence[float], least: float) -> list[list[bool]]:
    """Tell for each text and each of its secrets whether most of it is found."""
    told = defaultdict(list)
    for row, score in zip(rows, scores, strict=True):
        if score > least:
            told[row.text].append((row.start, row.end))
    return [
        [_is_covered(span, (*text.found, *told[number])) for span in text.spans] for number, text in enumerate(texts)
    ]


def _is_covered(span: tuple[int, int], found: Sequence[tuple[int, int]]) -> bool:
    start, end = span
    return 2 * sum(any(first <= at < last for first, last in found) for at in range(start, end)) > end - start


def report(texts: Sequence[Text], rows: Sequence[Row], scores: Sequence[float], least: float) -> Iterator[str]:
    """Yield the shares of secrets and texts that are caught, and of harmless ones changed, by author and language."""
    highest, told = _highest(rows, scores), caught(texts, rows, scores, least)
    changed = [bool(text.found) or highest[number] > least for number, text in enumerate(texts)]
    for author in _AUTHORS:
        of = [number for number, text in enumerate(texts) if text.author == author]
        spoilt = [changed[number] for number in of if texts[number].harmless]
        texts_told = [told[number] for number in of if not texts[number].harmless]
        every = [one for found in texts_told for one in found]
        whole = sum(map(all, texts_told)) / len(texts_told)
        share = sum(every) / len(every)
        wrong = sum(spoilt) / len(spoilt)
        yield f"{author}: {share:.1%} of secrets, {whole:.1%} of texts; {wrong:.2%} of harmless ones"
    languages: dict[str, list[bool]] = defaultdict(list)
    for text, found in zip(texts, told, strict=True):
        if text.author in _AUTHORS:
            languages[text.language] += found
    yield ", ".join(f"{name} {sum(found) / len(found):.1%}" for name, found in sorted(languages.items()) if found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    texts, rows = read((*_AUTHORS, *_PLAIN_AUTHORS))
    fit = Fit(texts, rows)
    scores = fit.left_out([texts[row.text].author for row in rows]).tolist()
    least = threshold(texts, rows, scores)
    for line in report(texts, rows, scores, least):
        print(line)
    if write:
        weights = fit.weights(np.ones(len(rows), np.bool_))
        _write(fit.names, weights.tolist(), least)


def _write(names: Sequence[str], weights: Sequence[float], least: float) -> None:
    kept = {
        name: round(weight, _DECIMALS)
        for name, weight in zip(names, weights[:-1], strict=True)
        if abs(weight) >= _LEAST_WEIGHT
    }
    content = {"least": round(least - weights[-1], _DECIMALS), "weights": kept}
    _FILE.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
