"""How much of the evidence a search finds: several corpora through the real stores, index and embedding model.

    python -m benchmarks.retrieval [--data FILE ...] [--peers]

Each conversation is a workspace of its own, each turn a crystal with its speaker and date, each note one without;
each question a search on the day after the last session. recall@k is the share of a question's evidence among the
first k hits, nDCG@10 weighs it by its places, MRR is the reciprocal of the first place of evidence, `first` how often
that is the first one: each averaged over the questions. An arm (words alone, vectors alone) or a peer wins where its
mean is higher by more than chance explains (a paired bootstrap over the questions); one win of an arm, and the
command fails. Below each table stands how often something good is said to be found: where
it was, where only another conversation answers, and where the question merely sounds as if; what an agent gets; and
for how many of two questions that are asked as one both find evidence among the first eight. Measured are the corpora
of tests/state/search/corpora, on whose first half the weights are fitted too (see `benchmarks.fit_search`); LoCoMo's
conversations (CC BY-NC 4.0), from DREAMD_LOCOMO; and BEAM's, in LoCoMo's form, from DREAMD_BEAM. These two are no
part of this project, and are looked for in ../shared/data beside the repository too.
"""

import argparse
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daemon.ingest.formats.prose import trust_of
from daemon.workspace.vector_index import Index
from state.crystals.crystal import Crystal, Origin
from state.crystals.salience import salience
from state.search.query import content_words
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.search import Searched, search
from state.stores.database.opening import open_database
from state.stores.disk.workspace import contained, init_workspace
from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.embedder import Embedder, Unavailable, open_embedder

CORPORA = Path(__file__).resolve().parents[1] / "tests" / "state" / "search" / "corpora"
_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
CATEGORIES = {1: "several", 2: "time", 3: "open", 4: "single"}
FIRST = 10
# So many questions of another conversation are asked of each.
FOREIGN = 40
# So many pairs of its questions are asked as one, joined in these ways.
JOINED = 24
JOINTS = ("{}? {}", "{}, {}", "{} and {}")
_DRAWS = 2_000
_BINS = 10
Array = NDArray[np.float64]

Search = Callable[[str], list[str]]  # a question -> ids of crystals, best first


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its category, and the ids of the crystals that hold the evidence, one for each turn of it."""

    text: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation or collection of notes; `now` is the day after it ended.

    To the `unanswerable` questions it has no answer, though they sound as if.
    """

    corpus: str
    name: str
    crystals: tuple[Crystal, ...]
    questions: tuple[Asked, ...]
    now: datetime
    unanswerable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workspace:
    """A conversation in the stores."""

    conversation: Conversation
    crystals: Crystals
    embedder: Embedder
    index: VectorIndex


def corpora(named: Sequence[Path] = ()) -> dict[str, list[Conversation]]:
    """Return the corpora by name: these files, or else every one that is there."""
    files = list(named) or sorted(CORPORA.glob("*.json"))
    for variable, name in () if named else (("DREAMD_LOCOMO", "locomo-dev.json"), ("DREAMD_BEAM", "beam-dev.json")):
        path = Path(os.environ.get(variable) or _BESIDE / name)
        files += [path] if path.exists() else []
    found: dict[str, list[Conversation]] = {}
    for path in files:
        for conversation in read(path):
            found.setdefault(conversation.corpus, []).append(conversation)
    return found


def read(path: Path) -> list[Conversation]:
    """Read the conversations of a file in the form of LoCoMo's data file; its name is the corpus."""
    return [_conversation(path.stem, sample) for sample in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(corpus: str, sample: dict[str, Any]) -> Conversation:
    told = sample["conversation"]
    crystals: dict[str, Crystal] = {}
    numbers = sorted(int(key.split("_")[1]) for key in told if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        at = datetime.strptime(told[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for position, turn in enumerate(told[f"session_{number}"]):
            crystals[turn["dia_id"]] = _turn(turn, at, number, position)
    questions = []
    for one in sample["qa"]:
        named = {
            f"D{int(session)}:{int(turn)}"
            for evidence in one.get("evidence", ())
            for session, turn in re.findall(r"D0*(\d+):0*(\d+)", evidence)
        }
        known = tuple(crystals[name].id for name in sorted(named) if name in crystals)
        if known and one["category"] in CATEGORIES:
            questions.append(Asked(one["question"], one["category"], known))
    last = max(crystal.created_at for crystal in crystals.values())
    return Conversation(
        corpus,
        sample["sample_id"],
        tuple(crystals.values()),
        tuple(questions),
        last + timedelta(days=1),
        tuple(sample.get("unanswerable", ())),
    )


def _turn(turn: dict[str, str], at: datetime, session: int, position: int) -> Crystal:
    if not turn["speaker"]:
        return Crystal(turn["text"], Origin.SCRATCH, at)
    photo = f" [photo: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    trust = trust_of(turn["speaker"])
    return Crystal(
        text=turn["text"] + photo,
        origin=Origin.SESSION,
        created_at=at,
        kind=salience(turn["text"], trust).kind,
        trust=trust,
        context=f"{turn['speaker']}, {at.day} {at:%B %Y}",
        speaker=turn["speaker"],
        session=f"session {session}",
        position=position,
    )


@contextmanager
def opened(conversation: Conversation, embedder: Embedder, folder: Path) -> Iterator[Workspace]:
    """Open the conversation in a database with words and vectors, and in ChromaDB."""
    stored = init_workspace(contained(folder))
    connection = open_database(stored.database)
    crystals = Crystals(connection)
    crystals.learn(conversation.crystals)
    crystals.vectors.embed_pending(embedder, len(conversation.crystals))
    indexing = Index(stored, lambda: None, background=True)
    indexing.tell(crystals)
    index = indexing.wait()
    assert index is not None
    try:
        yield Workspace(conversation, crystals, embedder, index)
    finally:
        indexing.close()
        connection.close()


def hybrid(workspace: Workspace) -> Search:
    """Search as memory_search does."""
    return _searching(workspace, Searched(workspace.crystals, workspace.embedder, workspace.index))


def lexical_only(workspace: Workspace) -> Search:
    """Search as memory_search does where there is no embedding model."""
    return _searching(workspace, Searched(workspace.crystals))


def bm25(workspace: Workspace) -> Search:
    """Search the lexical index by itself."""
    connection = workspace.crystals.connection

    def search(question: str) -> list[str]:
        words = full_text.within_budget(full_text.frequency(connection, content_words(question)))
        order = list(full_text.nearest(connection, words, FIRST))
        found = workspace.crystals.by_keys(order)
        return [found[key].id for key in order]

    return search


def dense(workspace: Workspace) -> Search:
    """Search the vector index by itself."""
    return lambda question: [
        id_ for id_, _ in workspace.index.nearest(workspace.embedder.embed([question], questions=True)[0], FIRST)
    ]


def _searching(workspace: Workspace, searched: Searched) -> Search:
    now = workspace.conversation.now
    return lambda question: [
        hit.crystal.id for hit in search(searched, question, now, limit=FIRST, everything=True).hits
    ]


class Score(NamedTuple):
    """What one question gave, each in [0, 1]."""

    recall_5: float
    recall_10: float
    ndcg: float
    reciprocal: float
    first: float
    category: int


FIGURES = {"recall@5": 0, "recall@10": 1, "nDCG@10": 2, "MRR": 3, "first": 4}


def score(found: Sequence[str], evidence: Sequence[str], category: int = 0) -> Score:
    """Compare the first ten of what was found with the evidence."""
    places = [place for place, id_ in enumerate(found[:FIRST]) if id_ in evidence]
    five = sum(place < 5 for place in places) / len(evidence)
    best = sum(1 / math.log2(2 + place) for place in range(min(FIRST, len(evidence))))
    ndcg = sum(1 / math.log2(2 + place) for place in places) / best
    reciprocal = 1 / (1 + places[0]) if places else 0.0
    return Score(five, len(places) / len(evidence), ndcg, reciprocal, float(reciprocal == 1), category)


def measure(workspaces: Sequence[Workspace], system: Callable[[Workspace], Search]) -> list[Score]:
    """Ask every question."""
    scores = []
    for workspace in workspaces:
        search = system(workspace)
        asked = workspace.conversation.questions
        scores += [score(search(one.text), one.evidence, one.category) for one in asked]
    return scores


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _line(name: str, scores: Sequence[Score]) -> str:
    figures = (
        *(_mean([one[place] for one in scores]) for place in FIGURES.values()),
        *(_mean([one.recall_10 for one in scores if one.category == category]) for category in CATEGORIES),
    )
    return f"| {name:32} |" + "".join(f" {figure:.3f} |" for figure in figures)


def better(ours: Sequence[Score], theirs: Sequence[Score]) -> dict[str, tuple[float, float, float]]:
    """Return by how much each figure is better, and its 95 % interval by a paired bootstrap over the questions."""
    differences = np.array(ours)[:, : len(FIGURES)] - np.array(theirs)[:, : len(FIGURES)]
    chosen = np.random.default_rng(1).integers(len(ours), size=(_DRAWS, len(ours)))
    low, high = np.percentile(differences[chosen].mean(axis=1), [2.5, 97.5], axis=0)
    mean = differences.mean(axis=0)
    return {name: (float(mean[at]), float(low[at]), float(high[at])) for name, at in FIGURES.items()}


ARMS = ("words alone (BM25)", "vectors alone")
SEARCH = "memory_search"
Systems = Mapping[str, Callable[[Workspace], Search]]
SYSTEMS: Systems = {
    ARMS[0]: bm25,
    ARMS[1]: dense,
    "memory_search, no model": lexical_only,
    SEARCH: hybrid,
}


def table(corpus: str, found: Mapping[str, Sequence[Score]]) -> Iterator[str]:
    """Yield the table of one corpus, line by line, and who wins against memory_search."""
    names = (*FIGURES, *CATEGORIES.values())
    yield f"| {f'{corpus}, {len(found[SEARCH])} questions':32} | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for name, scores in found.items():
        yield _line(name, scores)
    yield from (f"WINS: {name}, {told}" for name in found for told in wins(found[name], found[SEARCH]))


def wins(theirs: Sequence[Score], ours: Sequence[Score]) -> list[str]:
    """Return the figures by which another system is better than memory_search, beyond chance."""
    return [
        f"{figure} {mean:+.3f} ({low:+.3f}..{high:+.3f})"
        for figure, (mean, low, high) in better(theirs, ours).items()
        if low > 0
    ]


def _said_good(workspaces: Sequence[Workspace], foreign: Mapping[str, Sequence[str]]) -> str:
    """Tell how often memory_search claims a good result, where it has one and where there is no answer."""
    said: dict[str, list[bool]] = {"of what is found": [], "of another's questions": [], "of what sounds alike": []}
    for workspace in workspaces:
        conversation = workspace.conversation
        searched = Searched(workspace.crystals, workspace.embedder, workspace.index)
        for asked in conversation.questions:
            found = search(searched, asked.text, conversation.now)
            if {hit.crystal.id for hit in found.hits[:5]}.intersection(asked.evidence):
                said["of what is found"].append(found.good)
        nowhere = {
            "of another's questions": foreign[conversation.name],
            "of what sounds alike": conversation.unanswerable,
        }
        for sort, questions in nowhere.items():
            said[sort] += [search(searched, question, conversation.now).good for question in questions]
    shares = (f"{_mean([float(one) for one in answers]):.2f} {sort}" for sort, answers in said.items() if answers)
    return f"said to be good: {', '.join(shares)}"


def _returned(workspaces: Sequence[Workspace], foreign: Mapping[str, Sequence[str]]) -> str:
    """Tell what memory_search returns to an agent, and for how many of another's questions it returns anything."""
    kept, whole, counts, answers, elsewhere = 0, 0, 0, 0, list[bool]()
    scores, right = list[float](), list[bool]()
    for workspace in workspaces:
        conversation = workspace.conversation
        searched = Searched(workspace.crystals, workspace.embedder, workspace.index)
        for asked in conversation.questions:
            every = search(searched, asked.text, conversation.now, everything=True).hits
            returned = len(search(searched, asked.text, conversation.now).hits)
            is_evidence = [hit.crystal.id in asked.evidence for hit in every]
            answers += returned
            counts += 1
            kept += sum(is_evidence[:returned])
            whole += sum(is_evidence)
            scores += [hit.score for hit in every]
            right += is_evidence
        elsewhere += [bool(search(searched, one, conversation.now).hits) for one in foreign[conversation.name]]
    said = (
        f"returned: {answers / counts:.1f} results, {kept / max(1, answers):.2f} of them evidence, {kept / whole:.2f}"
    )
    something = (
        f", anything for {_mean([float(one) for one in elsewhere]):.2f} of another's questions" if elsewhere else ""
    )
    off = off_by(np.array(scores), np.array(right))
    return f"{said} of the evidence among the first eight{something}; the score is off by {off:.3f}"


def off_by(scores: Array, right: NDArray[np.bool_]) -> float:
    """Return how far scores are from the share of such results that answer, the mean of ten bins of one size."""
    bins = np.array_split(np.argsort(scores, kind="stable"), _BINS)
    return float(np.mean([abs(scores[one].mean() - right[one].mean()) for one in bins if len(one)]))


def _joined(workspaces: Sequence[Workspace]) -> str:
    """Tell for how many of two questions of a conversation that are asked as one both find evidence."""
    found = list[bool]()
    for workspace in workspaces:
        asked, now = workspace.conversation.questions, workspace.conversation.now
        searched = Searched(workspace.crystals, workspace.embedder, workspace.index)
        others = asked[len(asked) // 2 + 1 :] + asked[: len(asked) // 2 + 1]
        pairs = [pair for pair in zip(asked, others, strict=True) if not {*pair[0].evidence} & {*pair[1].evidence}]
        for number, (one, other) in enumerate(pairs[:: max(1, len(pairs) // JOINED)][:JOINED]):
            question = JOINTS[number % len(JOINTS)].format(one.text.rstrip(" ?？"), other.text)
            first = {hit.crystal.id for hit in search(searched, question, now, everything=True).hits}
            found.append(all(first.intersection(each.evidence) for each in (one, other)))
    return (
        f"asked as one: {len(found)} pairs of questions, {_mean([float(both) for both in found]):.2f} both answered"
    )


def foreign_questions(known: Mapping[str, Sequence[Conversation]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, by corpus and conversation, questions that another conversation in its language answers."""
    others: dict[str, dict[str, tuple[str, ...]]] = {}
    for corpus, conversations in known.items():
        elsewhere = {one.name: one for name, more in known.items() if name != corpus for one in more}
        for place, conversation in enumerate(conversations):
            following = conversations[(place + 1) % len(conversations)]
            if corpus.startswith("languages"):
                following = elsewhere.get(conversation.name, conversation)
            asked = following.questions if following is not conversation else ()
            others.setdefault(corpus, {})[conversation.name] = tuple(one.text for one in asked[:FOREIGN])
    return others


@contextmanager
def workspaces_of(conversations: Sequence[Conversation], embedder: Embedder) -> Iterator[list[Workspace]]:
    """Open the conversations in stores of their own while the context lasts."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        opened_ones = []
        for number, conversation in enumerate(conversations):
            folder = Path(name) / str(number)
            folder.mkdir()
            opened_ones.append(stack.enter_context(opened(conversation, embedder, folder)))
        yield opened_ones


@contextmanager
def model() -> Iterator[Embedder]:
    """Return the installed embedding model."""
    with tempfile.TemporaryDirectory() as folder:
        embedder = open_embedder(Path(folder))
        if isinstance(embedder, Unavailable):
            raise SystemExit(embedder.reason)
        yield embedder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=())
    parser.add_argument(
        "--peers", action="store_true", help="beside what users would pick instead (benchmarks.peers)"
    )
    arguments = parser.parse_args()
    systems = dict(SYSTEMS)
    if arguments.peers:
        from benchmarks.peers import PEERS

        systems |= PEERS
    beaten = list[str]()
    with model() as embedder:
        known = corpora(arguments.data)
        foreign = foreign_questions(known)
        for corpus, conversations in known.items():
            with workspaces_of(conversations, embedder) as workspaces:
                found = {name: measure(workspaces, system) for name, system in systems.items()}
                print(*table(corpus, found), sep="\n", flush=True)
                print(_said_good(workspaces, foreign[corpus]), _returned(workspaces, foreign[corpus]), sep="\n")
                print(_joined(workspaces), flush=True)
                beaten += [f"{corpus}: {arm}, {one}" for arm in ARMS for one in wins(found[arm], found[SEARCH])]
    if beaten:
        raise SystemExit("\n".join(("an arm wins:", *beaten)))


if __name__ == "__main__":
    main()
