"""Arms: ways to remember the same life, each lived in a temporary workspace of its own and then asked.

notes     no dream: every note is kept and searched, none is folded in
dream     a consolidation pass and a dream each day, without a model
model     the same with the configured model
rewrite   one text that is written anew each day from itself and the day's notes (`daemon.evaluation.rewrite`)
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from daemon.api.search import search
from daemon.config.settings import Config, ModelSection
from daemon.dream.consolidation import consolidate
from daemon.dream.model import model_for
from daemon.dream.run import Mode, dream_now
from daemon.evaluation.life import Life
from daemon.evaluation.measures import FIRST, FOUND, Found, Memory
from daemon.evaluation.rewrite import ModelRewriter, Rewriter, most_important, text_of
from daemon.ingest.notes import absorb_notes
from daemon.workspace.adoption import init_workspace
from daemon.workspace.document import read_document
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.bootstrap import bootstrap, budget_for
from state.budget import Spend
from state.crystals.crystal import Crystal, Origin
from state.document.document import SectionName, parse
from state.dream import Reason
from state.errors import NothingToDoError, RejectedError
from state.scratch import Note
from state.search.ranking import Hit
from state.stores.crystals.duplicates import HiddenDuplicates
from state.stores.crystals.search import Beside, Searcher
from state.trust import Trust

CHARACTERS_PER_TOKEN = 4
# These assert nothing: topics of what left, and open questions.
_NO_ASSERTIONS = frozenset((SectionName.POINTERS, SectionName.GAPS))
_SHOWN_EVERY = 10  # days


class Arm(StrEnum):
    """A way to remember."""

    NOTES = "notes"
    DREAM = "dream"
    MODEL = "model"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class Setting:
    """What all arms have in common. `home` is an empty folder; `tokens` is the budget of what an agent reads.

    `config` names a model where one may be asked; `started` is the end of the life.
    """

    life: Life
    config: Config
    embedding: Embedding
    home: Path
    tokens: int
    started: datetime
    with_model: bool = False
    tell: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Lived:
    """What an arm has at the end, and what it took. `refused` dreams were: their notes waited for the next one."""

    memory: Memory
    seconds: float
    spent: Spend = field(default_factory=Spend)
    refused: int = 0


def live(arm: Arm, setting: Setting) -> Lived:
    """Live the life in this way, then ask every question. Raises what a model or the disk fails with."""
    began = time.monotonic()
    lived = _rewrite(setting) if arm is Arm.REWRITE else _store(arm, setting)
    return replace(lived, seconds=time.monotonic() - began)


def _days(arm: Arm, setting: Setting) -> Iterator[tuple[Note, ...]]:
    """The notes of each day that has some."""
    for day, notes in enumerate(setting.life.notes(setting.started)):
        if day % _SHOWN_EVERY == 0:
            setting.tell(f"{arm.value}: day {day} of {len(setting.life.days)}")
        if notes:
            yield notes


@contextmanager
def _opened(arm: Arm, setting: Setting) -> Iterator[Store]:
    """A new workspace, unknown to the user's own state folder."""
    environment = {**os.environ, "XDG_STATE_HOME": str(setting.home / "state")}
    workspace = init_workspace(setting.home / arm.value, environment)
    asks = setting.with_model and arm in (Arm.MODEL, Arm.REWRITE)
    changed: dict[str, object] = {} if asks else {"model": ModelSection()}
    config = setting.config.model_copy(update=changed)
    with open_exclusive(workspace, config, "dreamd eval", embedding=setting.embedding) as store:
        yield store


def _store(arm: Arm, setting: Setting) -> Lived:
    dreams, refused, last = arm is not Arm.NOTES, 0, tuple[Note, ...]()
    with _opened(arm, setting) as store:
        for notes in _days(arm, setting):
            last = notes
            for note in notes:
                store.segments.append(note)
            if dreams:
                consolidate(store, utc_now())
                refused += not _dream(store)
        if not dreams:
            absorb_notes(store, utc_now())
            store.embed()
        memory = _asked(store, setting, dreams=dreams)
        if dreams:
            memory = replace(memory, unsettled=_unsettled(store, last))
        return Lived(memory, 0.0, store.ledger.spent(), refused)


def _dream(store: Store) -> bool:
    """One dream; whether it was not refused."""
    try:
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    except NothingToDoError:
        return True
    except RejectedError:
        return False
    return True


def _asked(store: Store, setting: Setting, *, dreams: bool) -> Memory:
    text = _document(store)
    pending = store.segments.pending_notes()
    window = store.config.dream.context_window

    def starts_with(most: int) -> str:
        return bootstrap(text, pending, window, most).text

    asked = _Asked(setting, lambda query: search(store, query, FIRST).hits, starts_with)
    lines = _lines(text) if dreams else None
    replaced = (*store.lineage.replaced(), *HiddenDuplicates(store.crystals).texts())
    return asked.memory(lines, replaced)


def _document(store: Store) -> str:
    text, _ = read_document(store)
    return text


def _lines(text: str) -> tuple[str, ...]:
    """What the document asserts, line by line."""
    return tuple(block.text for section, block in parse(text).lines() if section not in _NO_ASSERTIONS)


def _unsettled(store: Store, notes: Sequence[Note]) -> float:
    """The share of lines that a dream on these notes, which it had already, takes out or adds."""
    before = set(_lines(_document(store)))
    for note in notes:
        store.segments.append(note)
    _dream(store)
    return _changed(before, set(_lines(_document(store))))


def _changed(before: set[str], after: set[str]) -> float:
    return len(before ^ after) / max(1, len(before | after))


def _rewrite(setting: Setting) -> Lived:
    entries, last = list[Note](), tuple[Note, ...]()
    with _opened(Arm.REWRITE, setting) as store:
        rewrite = _rewriter(store)
        for notes in _days(Arm.REWRITE, setting):
            entries, last = rewrite(entries, notes), notes
        crystals = [
            Crystal(note.text, Origin.SCRATCH, note.at, importance=note.importance, trust=Trust.AGENT)
            for note in entries
        ]
        embedder = store.embedder()
        with closing(Beside(crystals, embedder)) as beside:
            searcher = Searcher(beside.crystals, embedder)
            text = text_of(entries)
            asked = _Asked(
                setting,
                lambda query: searcher.search(query, utc_now(), limit=FIRST).hits,
                lambda most: bootstrap(text, (), store.config.dream.context_window, most).text,
            )
            memory = asked.memory(tuple(note.text for note in entries), ())
        before, after = ({note.text for note in some} for some in (entries, rewrite(entries, last)))
        memory = replace(memory, unsettled=_changed(before, after))
        return Lived(memory, 0.0, store.ledger.spent())


def _rewriter(store: Store) -> Rewriter:
    budget = budget_for(store.config.dream.context_window)
    if store.config.model.name is None:
        return most_important(budget)
    return ModelRewriter(lambda name: model_for(store, name), budget)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A memory that is asked: its search, and its bootstrap within so many characters."""

    setting: Setting
    hits: Callable[[str], Sequence[Hit]]
    starts_with: Callable[[int], str]

    def memory(self, lines: tuple[str, ...] | None, replaced: tuple[tuple[str, str], ...]) -> Memory:
        """Every question asked."""
        facts = self.setting.life.facts
        now = {fact.id: self._found(fact.question) for fact in facts}
        past = {fact.id: self._found(fact.past) for fact in facts if fact.past}
        contexts = {id_: self._context(hits[:FOUND]) for id_, hits in now.items()}
        return Memory(lines, now, past, contexts, replaced)

    def _found(self, query: str) -> tuple[Found, ...]:
        return tuple(
            Found(hit.crystal.text, hit.superseded_by.text if hit.superseded_by else "") for hit in self.hits(query)
        )

    def _context(self, hits: Sequence[Found]) -> tuple[str, ...]:
        """The hits that fit, and of the bootstrap what has room beside them, row by row."""
        room, rows = self.setting.tokens * CHARACTERS_PER_TOKEN, list[str]()
        for hit in hits:
            if len(hit.text) > room:
                break
            room -= len(hit.text) + 1
            rows.append(hit.text)
        return (*rows, *self.starts_with(max(0, room)).splitlines())
