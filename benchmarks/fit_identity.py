"""Fit the trees by which state/text/identity.py compares two statements, on pairs that people wrote.

    python -m benchmarks.fit_identity [--data FILE] [--write]

Prints for each author of tests/state/text/corpora how many pairs that say the same, and how many updates, are seen
by trees that were fitted on the other authors: what a reader may expect of texts that nobody fitted on. Letta's
core_memory_update (Apache-2.0) is learnt from too, where it is: it is no part of this project, and read from --data,
else DREAMD_LETTA. `--write` fits on all and replaces state/text/identity.json. Needs `uv pip install --group fit`.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.updates import read
from state.stores.vectors.embedder import Unavailable, open_embedder
from state.text import identity

_CORPORA = Path(__file__).resolve().parents[1] / "tests" / "state" / "text" / "corpora"
_FILE = Path(identity.__file__).with_name("identity.json")
MEASURES = ("same", "update")
_TREES, _DEPTH, _RATE, _ROWS, _COLUMNS = 220, 3, 0.07, 0.6, 0.3
# There are many more pairs of Letta's, and of one kind.
_LETTA = 0.25
# Of so many pairs the cosine is taken for unknown, as it is without an embedding model.
_UNKNOWN = 0.15
_AUTHORS_OF_LETTA = 5
# This author is measured only, and never learnt from.
_HELD_OUT = "e"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements, the older one first, and what they are to each other."""

    author: str
    older: str
    newer: str
    relation: str


def pairs(letta: Path | None) -> list[Pair]:
    """All that is learnt from. Letta's are cut into five "authors" by their people."""
    found = []
    for path in sorted(_CORPORA.glob("identity_*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found.append(Pair(path.stem.removeprefix("identity_"), row["a"], row["b"], row["relation"]))
    for change in read(letta) if letta else ():
        people = sum(map(ord, change.facts[0])) % _AUTHORS_OF_LETTA
        for fact in change.facts:
            if fact == change.old or fact not in change.touched:
                relation = "update" if fact == change.old else "different"
                found.append(Pair(f"letta {people}", fact, change.new, relation))
    return list(dict.fromkeys(found))


def table(rows: Sequence[Pair]) -> tuple[list[str], NDArray[np.float64]]:
    """The names of the features, and a row of them for each pair."""
    with tempfile.TemporaryDirectory() as cache:
        embedder = open_embedder(Path(cache))
        if isinstance(embedder, Unavailable):
            raise SystemExit(embedder.reason)
        texts = list(dict.fromkeys(text for row in rows for text in (row.older, row.newer)))
        vectors = dict(zip(texts, embedder.embed(texts), strict=True))
    drawn = np.random.default_rng(1).random(len(rows))
    found = []
    for row, chance in zip(rows, drawn, strict=True):
        cosine = None if chance < _UNKNOWN else float(vectors[row.older] @ vectors[row.newer])
        found.append(identity.features(row.older, row.newer, cosine))
    names = sorted(found[0])
    return names, np.array([[one[name] for name in names] for one in found])


def fitted(values: NDArray[np.float64], wanted: NDArray[np.bool_], weights: NDArray[np.float64]) -> Any:  # noqa: ANN401
    """The trees for one measure."""
    from sklearn.ensemble import GradientBoostingClassifier

    trees = GradientBoostingClassifier(
        n_estimators=_TREES,
        max_depth=_DEPTH,
        learning_rate=_RATE,
        subsample=_ROWS,
        max_features=_COLUMNS,
        random_state=0,
    )
    return trees.fit(values, wanted, sample_weight=weights)


def written(model: Any, names: Sequence[str]) -> dict[str, object]:  # noqa: ANN401
    """The trees as `state.text.identity` reads them."""
    trees = []
    for (stump,) in model.estimators_:
        tree = stump.tree_
        nodes: list[list[float]] = []
        for at in range(tree.node_count):
            if tree.children_left[at] < 0:
                nodes.append([round(_RATE * float(tree.value[at][0][0]), 4)])
            else:
                lower, higher = int(tree.children_left[at]), int(tree.children_right[at])
                nodes.append([int(tree.feature[at]), round(float(tree.threshold[at]), 4), lower, higher])
        trees.append(nodes)
    odds = float(model.init_.class_prior_[1])
    return {"start": round(float(np.log(odds / (1 - odds))), 4), "features": list(names), "trees": trees}


def main() -> None:
    """Print what is seen of each author, left out; write the trees."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DREAMD_LETTA"))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = pairs(Path(arguments.data) if arguments.data else None)
    names, values = table(rows)
    authors = np.array([row.author for row in rows])
    relations = np.array([row.relation for row in rows])
    weights = np.where(np.char.startswith(authors, "letta"), _LETTA, 1.0)
    for measure, least in zip(MEASURES, (identity.SAME, identity.UPDATE), strict=True):
        scores = np.zeros(len(rows))
        for author in sorted(set(authors)):
            left = (authors == author) | (authors == _HELD_OUT)
            trees = fitted(values[~left], relations[~left] == measure, weights[~left])
            mine = authors == author
            scores[mine] = trees.predict_proba(values[mine])[:, 1]
        if measure == "same":
            scores = np.where(values[:, names.index("may_be_same")] > 0, scores, 0.0)
        print(f"{measure}, from {least} on, by trees of the other authors")
        for author in sorted(set(np.char.partition(authors, " ")[:, 0])):
            mine = np.char.startswith(authors, author)
            shares = ", ".join(
                f"{relation} {np.mean(scores[mine & (relations == relation)] >= least):.1%}"
                for relation in sorted(set(relations[mine]))
            )
            print(f"  {author}: {shares}")
    learnt = authors != _HELD_OUT
    if arguments.write:
        model = {
            measure: written(fitted(values[learnt], relations[learnt] == measure, weights[learnt]), names)
            for measure in MEASURES
        }
        _FILE.write_text(json.dumps(model, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
