"""Fit the weights of state/search/ranking.py over several corpora, and say what each signal is worth on each.

    python -m benchmarks.fit_search [--without SIGNAL ...]

The corpora are those of `benchmarks.retrieval` but for what is held out (names that end in "-b"). Of each question
the candidates are those of the real search, with their signals; the weights are those of a listwise softmax, where
each corpus counts alike. Printed are recall@10 of each corpus by weights that were fitted on the others, beside words
and vectors alone; what each signal adds there, with the 95 % interval of a bootstrap over the questions; the weights
over all; and how closeness becomes a score, for which each question is asked of another conversation too. Needs
`uv pip install --group fit`.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.retrieval import (
    FIRST,
    FOREIGN,
    Asked,
    Conversation,
    Workspace,
    bm25,
    corpora,
    dense,
    model,
    workspaces_of,
)
from state.search.ranking import UNRELATED, Looked, Signals, relevance, unrelated
from state.stores.crystals.search import Searched, candidates
from state.stores.vectors.embedder import Embedder

# What an agent was told to do always is evidence of a few questions and noise to all others: its weight is chosen by
# what it costs in conversations with agents, and not fitted.
NAMES = tuple(field.name for field in fields(Signals) if field.name != "instruction")
# A weight that a corpus needs more than this is held back: what is fitted so transfers better.
_RIDGE = 0.1
_DRAWS = 2_000
_SHOWN = 8
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """A question: the signals of its candidates (n, signals), which of them are evidence, and what each arm found.

    The candidates stand in the order of the search; `missing` is how much of the evidence is no candidate, `texts`
    how many texts the conversation has.
    """

    signals: Array
    evidence: NDArray[np.bool_]
    missing: int
    texts: int
    words: float = 0.0
    vectors: float = 0.0


@dataclass(frozen=True, slots=True)
class Corpus:
    """The cases of a corpus, with an embedder and without, and the same for questions that it cannot answer."""

    cases: list[Case]
    cases_by_words: list[Case]
    foreign: list[Case]
    foreign_by_words: list[Case]


def read(conversations: Sequence[Conversation], embedder: Embedder) -> Corpus:
    """Ask every question of its conversation, and some of the next conversation's too."""
    found = Corpus([], [], [], [])
    with workspaces_of(conversations, embedder) as workspaces:
        for number, workspace in enumerate(workspaces):
            by_meaning = Searched(workspace.crystals, workspace.embedder, workspace.index)
            by_words = Searched(workspace.crystals)
            arms = bm25(workspace), dense(workspace)
            for asked in workspace.conversation.questions:
                shares = [_share(search(asked.text), asked) for search in arms]
                found.cases.append(_case(by_meaning, workspace, asked, *shares))
                found.cases_by_words.append(_case(by_words, workspace, asked, *shares))
            following = conversations[(number + 1) % len(conversations)]
            for asked in following.questions[:FOREIGN] if following is not workspace.conversation else ():
                nothing = Asked(asked.text, asked.category, ())
                found.foreign.append(_case(by_meaning, workspace, nothing))
                found.foreign_by_words.append(_case(by_words, workspace, nothing))
    return found


def _case(searched: Searched, workspace: Workspace, asked: Asked, words: float = 0.0, vectors: float = 0.0) -> Case:
    known = candidates(searched, asked.text, workspace.conversation.now)
    known.sort(key=lambda candidate: -relevance(candidate[1]))
    matrix = np.array(
        [[float(getattr(signals, name)) for name in NAMES] for _, signals in known] or [[0.0] * len(NAMES)]
    )
    evidence = np.array([crystal.id in asked.evidence for crystal, _ in known] or [False])
    texts = len(workspace.conversation.crystals)
    return Case(matrix, evidence, len(asked.evidence) - int(evidence.sum()), texts, words, vectors)


def _share(found: Sequence[str], asked: Asked) -> float:
    return sum(one in found for one in asked.evidence) / len(asked.evidence)


def fit(groups: Sequence[Sequence[Case]], columns: Sequence[int]) -> Array:
    """Return the weights of these columns, the first one 1, by which the evidence has the highest likelihood."""
    learnt = [
        (case.signals[:, columns], case.evidence / case.evidence.sum(), 1.0 / len(group) / len(groups))
        for group in groups
        for case in group
        if case.evidence.any()
    ]
    every = np.concatenate([signals for signals, _, _ in learnt])
    wanted = np.concatenate([target for _, target, _ in learnt])
    sizes = np.array([len(target) for _, target, _ in learnt])
    weight = np.array([counted for _, _, counted in learnt])
    starts = np.cumsum(sizes) - sizes
    scale = every.std(axis=0) + 1e-9
    scaled, each = every / scale, np.repeat(weight, sizes)

    def loss(weights: Array) -> tuple[float, Array]:
        scores = scaled @ weights
        top = np.maximum.reduceat(scores, starts)
        raised = np.exp(scores - np.repeat(top, sizes))
        totals = np.add.reduceat(raised, starts)
        value = float((weight * (np.log(totals) + top)).sum() - (each * wanted * scores).sum())
        slope = scaled.T @ (each * (raised / np.repeat(totals, sizes) - wanted))
        return value + _RIDGE * float(weights @ weights) / 2, slope + _RIDGE * weights

    found = minimize(loss, np.zeros(len(columns)), jac=True, method="L-BFGS-B").x / scale
    return np.asarray(found / found[0])


def recall(cases: Sequence[Case], columns: Sequence[int], weights: Array) -> Array:
    """Return recall@10 of each case."""
    found = []
    for case in cases:
        first = np.argsort(-(case.signals[:, columns] @ weights), kind="stable")[:FIRST]
        found.append(case.evidence[first].sum() / (case.evidence.sum() + case.missing))
    return np.array(found)


def left_out(known: Mapping[str, Sequence[Case]], columns: Sequence[int]) -> dict[str, Array]:
    """Return recall@10 of each case by weights that were fitted on the other corpora."""
    return {
        name: recall(cases, columns, fit([other for key, other in known.items() if key != name], columns))
        for name, cases in known.items()
    }


def interval(differences: Array) -> tuple[float, float, float]:
    """Return the mean, and the 95 % interval of a bootstrap over the questions."""
    draws = np.random.default_rng(1).choice(differences, (_DRAWS, len(differences))).mean(axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(differences.mean()), float(low), float(high)


def as_scores(known: Mapping[str, Corpus], near: float, *, by_meaning: bool) -> tuple[float, float]:
    """Fit STEEP and MIDDLE: a logistic regression of whether there is an answer on the closest result.

    Learnt from is what is found among the first five, and that a conversation cannot answer another one's questions;
    each corpus counts alike, and in it each of the two. Not from collections of which each has another language: that
    is told by the words.
    """
    close, answered, counted = [], [], []
    for name, corpus in known.items():
        cases, foreign = (
            (corpus.cases, corpus.foreign) if by_meaning else (corpus.cases_by_words, corpus.foreign_by_words)
        )
        found = [case for case in cases if case.evidence[:5].any()]
        if not foreign or name.startswith("languages"):
            continue
        for group, answer in ((found, 1.0), (foreign, 0.0)):
            close += [_closeness(case, near, by_meaning=by_meaning) for case in group]
            answered += [answer] * len(group)
            counted += [0.5 / len(group)] * len(group)
    x, y, each = np.array(close), np.array(answered), np.array(counted)

    def loss(line: Array) -> float:
        raised = line[0] * (x - line[1])
        return float((each * (np.logaddexp(0.0, raised) - y * raised)).sum())

    steep, middle = minimize(loss, np.array([8.0, 0.5]), method="Nelder-Mead").x
    said = 1.0 * (x >= middle)
    print(f"  said good: {np.average(said, weights=each * y):.2f} of what is found, ", end="")
    print(f"{np.average(said, weights=each * (1 - y)):.2f} of another conversation's questions")
    return float(steep), float(middle)


def as_chance(known: Mapping[str, Corpus], weights: Array, columns: Sequence[int], *, by_meaning: bool) -> Array:
    """Fit CHANCE: a logistic regression of whether a result is evidence, on what `Looked.chance` looks at.

    Each corpus counts alike, what is asked of another conversation a tenth as much.
    """
    rows, hits, counted = list[list[float]](), list[bool](), list[float]()
    said = NAMES.index("cosine" if by_meaning else "near")
    full = weights[weights > 0].sum()
    for corpus in known.values():
        asked = corpus.cases if by_meaning else corpus.cases_by_words
        foreign = corpus.foreign if by_meaning else corpus.foreign_by_words
        for cases, counts in ((asked, 1.0), (foreign, 0.1)):
            for case in cases:
                matches = np.clip(case.signals[:, columns] @ weights / full, 0.0, 1.0)
                looked, first = Looked.at(matches.tolist(), case.texts), np.argsort(-matches)[:_SHOWN]
                for place in first:
                    match = float(matches[place])
                    out = (match - looked.mean) / looked.deviation if by_meaning else 0.0
                    rows.append([1.0, out, looked.best - match, float(case.signals[place, said]), looked.size])
                    hits.append(bool(case.evidence[place]))
                    counted.append(counts / len(cases))
    x, y, each = np.array(rows), np.array(hits, float), np.array(counted)

    def loss(line: Array) -> tuple[float, Array]:
        raised = x @ line
        slope = x.T @ (each * (1.0 / (1.0 + np.exp(-raised)) - y))
        return float((each * (np.logaddexp(0.0, raised) - y * raised)).sum()), slope

    return np.asarray(minimize(loss, np.zeros(5), jac=True, method="L-BFGS-B").x)


def _closeness(case: Case, near: float, *, by_meaning: bool) -> float:
    """Return that of the closest result, as `state.search.ranking.score` has it."""
    cosines = case.signals[:, NAMES.index("cosine")]
    shown = cosines[:_SHOWN] + near * case.signals[:_SHOWN, NAMES.index("near")]
    return float(shown.max()) - (UNRELATED * unrelated(cosines.tolist()) if by_meaning else 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", nargs="+", choices=NAMES[1:], default=())
    columns = [place for place, name in enumerate(NAMES) if name not in parser.parse_args().without]
    with model() as embedder:
        known = {name: read(all_of, embedder) for name, all_of in corpora().items() if not name.endswith("-b")}
    learnt = {name: corpus.cases for name, corpus in known.items()}
    whole = left_out(learnt, columns)
    print("recall@10 by weights of the other corpora")
    print("| corpus | words | vectors | search | over the better arm |\n|---|---|---|---|---|")
    for name, cases in learnt.items():
        words, vectors = (np.mean([getattr(case, arm) for case in cases]) for arm in ("words", "vectors"))
        gained = whole[name].mean() - max(words, vectors)
        print(f"| {name} | {words:.3f} | {vectors:.3f} | {whole[name].mean():.3f} | {gained:+.3f} |")
    print("\nwhat each signal adds, by weights of the other corpora (95 %)")
    print(f"| signal | {' | '.join(learnt)} |{'|---' * (len(learnt) + 1)}|")
    for place in columns[1:]:
        without = left_out(learnt, [other for other in columns if other != place])
        gains = (interval(whole[name] - without[name]) for name in learnt)
        print(
            f"| {NAMES[place]} |",
            " | ".join(f"{mean:+.3f} ({low:+.3f}..{high:+.3f})" for mean, low, high in gains),
            "|",
        )
    weights = fit(list(learnt.values()), columns)
    print(
        "\nweights over all:",
        {NAMES[place]: round(float(one), 2) for place, one in zip(columns, weights, strict=True)},
    )
    for by_meaning in (True, False):
        steep, middle = as_scores(known, float(weights[columns.index(NAMES.index("near"))]), by_meaning=by_meaning)
        print(f"by_meaning={by_meaning}: STEEP {steep:.2f}, MIDDLE {middle:.2f}")
        names = ("start", "out", "behind", "said", "size")
        chance = as_chance(known, weights, columns, by_meaning=by_meaning)
        print("  CHANCE", {name: round(float(one), 2) for name, one in zip(names, chance, strict=True)})


if __name__ == "__main__":
    main()
