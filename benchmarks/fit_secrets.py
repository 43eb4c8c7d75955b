"""Fit the weights by which state/secrets/judge.py tells a secret from other words, on the corpora of tests/redteam.

    python -m benchmarks.fit_secrets [--write]

Prints what is caught, and how much harmless is changed, by weights that were fitted on other kinds of texts, and by
those of the one author on the other. `--write` fits on all and replaces state/secrets/weights.json.
"""

import argparse
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from state.secrets import context, redaction
from state.secrets.candidates import candidates
from state.secrets.features import features
from state.secrets.mentions import mentions
from tests.redteam.corpus import CORPORA, drawn

_FILE = Path(redaction.__file__).with_name("weights.json")
_LEAST_SEEN, _LEAST_WEIGHT, _DECIMALS = 8, 0.02, 2
# Changing a word beside a secret costs less than changing a harmless text.
_HARMLESS, _SECRET, _BESIDE, _PLAIN = 1.5, 1.0, 0.3, 0.4
_PENALTY, _STEPS, _RATE = 1.0, 260, 0.0035
# Sentences as anybody says them are always learnt from, and never measured.
_ALWAYS = -1
_AUTHORS = ("a", "b", "c", "plain")
_SAME, _FOLDS = 0.75, 5


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a corpus. `spans`: its secrets; `found`: what is redacted without the judge."""

    author: str
    kind: str
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
    """All texts of the authors, and their candidates."""
    texts, rows = list[Text](), list[Row]()
    for author in authors:
        for name in ("secrets", "harmless"):
            for kind, _, text, spans in drawn(CORPORA / f"{name}_{author}.jsonl"):
                with patch.object(context, "is_told", lambda *_: False):
                    found = tuple((one.start, one.end) for one in redaction.redact(text).found)
                texts.append(Text(author, kind, name == "harmless", spans, found))
                rows += _rows(text, texts[-1], len(texts) - 1)
    return texts, rows


def _rows(text: str, of: Text, number: int) -> Iterator[Row]:
    for one in candidates(text, list(mentions(text))):
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
        """The weights, the last one for all, by Adam from nothing: the same for the same rows."""
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

    def left_out(self, folds: Sequence[int]) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
        """The score of each candidate by weights that were fitted on the other folds."""
        of = np.array(folds)
        scores = np.zeros(len(of), np.float32)
        for fold in sorted(set(folds) - {_ALWAYS}):
            scores[of == fold] = self._matrix[of == fold] @ self.weights(of != fold)
        return scores


def _cost(text: Text, row: Row) -> float:
    share = _PLAIN if text.author == "plain" else 1.0
    return share * (_HARMLESS if text.harmless else _SECRET if row.secret else _BESIDE)


def threshold(texts: Sequence[Text], rows: Sequence[Row], scores: Sequence[float]) -> float:
    """The score that as few harmless texts reach as may be changed."""
    highest: dict[int, float] = defaultdict(lambda: -99.0)
    for row, score in zip(rows, scores, strict=True):
        highest[row.text] = max(highest[row.text], float(score))
    harmless = [number for number, text in enumerate(texts) if text.harmless and text.author != "plain"]
    reached = sorted((highest[number] for number in harmless if not texts[number].found), reverse=True)
    return reached[int(_RATE * len(harmless))]


def caught(
    texts: Sequence[Text], rows: Sequence[Row], scores: Sequence[float], least: float
) -> Iterator[tuple[str, bool]]:
    """For each secret its author, and whether most of it is found."""
    told = defaultdict(list)
    for row, score in zip(rows, scores, strict=True):
        if score > least:
            told[row.text].append((row.start, row.end))
    for number, text in enumerate(texts):
        for start, end in text.spans if text.author != "plain" else ():
            spans = (*text.found, *told[number])
            covered = sum(any(a <= at < b for a, b in spans) for at in range(start, end))
            yield text.author, covered > (end - start) / 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    texts, rows = read(_AUTHORS)
    fit = Fit(texts, rows)
    plain = [texts[row.text].author == "plain" for row in rows]
    kinds = [zlib.crc32((texts[row.text].author + texts[row.text].kind).encode()) % _FOLDS for row in rows]
    authors = [_AUTHORS.index(texts[row.text].author) for row in rows]
    for name, known in (("other kinds", kinds), ("other author", authors)):
        folds = [_ALWAYS if is_plain else fold for is_plain, fold in zip(plain, known, strict=True)]
        scores = fit.left_out(folds)
        least = threshold(texts, rows, scores.tolist())
        shares = defaultdict(list)
        for author, is_caught in caught(texts, rows, scores.tolist(), least):
            shares[author].append(is_caught)
        figures = ", ".join(f"{author} {sum(all_) / len(all_):.1%}" for author, all_ in sorted(shares.items()))
        print(f"{name}: caught {figures}; threshold {least:.2f}")
        if name == "other author" and write:
            weights = fit.weights(np.ones(len(rows), np.bool_))
            _write(fit.names, weights.tolist(), least)


def _write(names: Sequence[str], weights: Sequence[float], least: float) -> None:
    kept = {
        name: round(weight, _DECIMALS)
        for name, weight in zip(names, weights[:-1], strict=True)
        if abs(weight) >= _LEAST_WEIGHT
    }
    content = {"least": round(least - weights[-1], _DECIMALS), "weights": kept}
    _FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
