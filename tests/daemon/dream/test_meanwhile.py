"""What anybody does while a dream is under way: nothing is lost, and nobody is said to have done it."""

import json
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from daemon.config.settings import Config, ModelSection
from daemon.dream import memory
from daemon.dream.consolidation import new_input
from daemon.dream.progress import Step
from daemon.dream.run import Mode, dream_now
from daemon.ingest.notes import absorb_notes
from daemon.journal import restore as restoring
from daemon.journal.lines import change
from daemon.journal.restore import restore
from daemon.journal.story import latest_entries
from daemon.journal.undo import undo
from daemon.workspace.adoption import init_workspace
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, follow_clock, utc_now
from graphs.review import LineAction, Wish
from state.crystals.crystal import Crystal, Origin
from state.document.document import parse
from state.document.sections import SectionName
from state.dream import Reason
from state.errors import ConflictError, RejectedError
from state.scratch import Note
from state.stores.history.inbox import NoteInbox
from state.stores.history.memory import TakenIn
from state.stores.history.proposals import Proposals
from state.trust import Trust
from tests.support import lived
from tests.support.committing import added, dreamt, opened, write
from tests.support.folders import PLACE
from tests.support.long_variants import examples
from tests.support.model_characters import good, inputs_of, lines_of
from tests.support.scripted_model import Script, ScriptedModel
from tests.support.working import noted

_THINGS = "harbour lantern kettle orchard violin compass anvil basket candle dormouse ember ferry glacier".split()
_PLACES = "Oslo Lima Cairo Tunis Delhi Quito Paris Turin Basel Riga Accra Dakar Hanoi Seoul Osaka Perth".split()
_SECTIONS = (SectionName.PHENOTYPE, SectionName.BOND, SectionName.CONTEXT)
_HEADINGS = "".join(f"\n## {name.value}\n\n- {name.value} is what I wrote\n" for name in _SECTIONS)
_SCHEMA = f"# Working Memory State\n{_HEADINGS}"
_OLD = "# My notes\n\n- Grandma bakes on Fridays\n- The cellar is damp\n\nProse of mine.\n"
_OPERATIONS = ("add", "revise", "evict", "merge", "move")
_ACTS = "write repeat change delete pin move prose old_buffer empty unlink append note".split()
_PIN = " 📌"

Operations = list[dict[str, Any]]
Which = list[tuple[str, int]]


class Meanwhile(RuleBasedStateMachine):
    """A workspace whose owner does not wait for its dreams."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(os.path.realpath(tempfile.mkdtemp(prefix="meanwhile-", dir=PLACE)))
        self.workspace = init_workspace(self.root)
        self.numbers = count()
        self.noted: set[str] = set()
        self.said: set[str] = set()
        """What the owner wrote into the file."""
        self.deleted: set[str] = set()
        """What stood in the file, and not any more once they had saved it."""
        self.buffers: list[str] = []

    def teardown(self) -> None:
        follow_clock(datetime.now(UTC), time.monotonic())
        shutil.rmtree(self.root)

    @initialize(before=st.sampled_from(("", _OLD, _SCHEMA)), begun=st.booleans())
    def begin(self, before: str, *, begun: bool) -> None:
        write(self.workspace, lambda _: before)
        self.said |= every_text(before)
        if begun:
            self.note(4)
            with opened(self.workspace) as store:
                dream_now(store, Reason.MANUAL, Mode.AUTO)

    @rule(
        plan=st.lists(st.tuples(st.sampled_from(_OPERATIONS), st.integers(0, 20)), min_size=1, max_size=4),
        acts=st.lists(st.tuples(st.sampled_from(_ACTS), st.integers(0, 20)), min_size=1, max_size=3),
        answers=st.integers(1, 2),
        cut_off=st.sampled_from(("", "", "synthesize", "guard", "evict")),
    )
    def dream(self, plan: Which, acts: Which, answers: int, cut_off: str) -> None:
        """A dream during whose first or second question they act, or one that is killed before they do."""
        notes, done, killed = self.note(len(plan)), dict[str, set[str]](), list[Step]()

        def thinks(request: dict[str, Any], _: int) -> str:
            asked = sum(one["role"] == "assistant" for one in request["messages"]) + 1
            if asked == answers and not cut_off:
                self.act(acts, notes)
            if asked > 1:
                return answered(evicting_its_own(request))
            wrong = [{"op": "revise", "line": "L9000", "text": "There is none", "cites": ["N1"]}]
            return answered(carried_out(request, plan, notes, done) + wrong * (answers - 1))

        def kill(step: Step) -> None:
            if step.node == cut_off and not killed:
                killed.append(step)
                raise KeyboardInterrupt

        with ScriptedModel(thinks) as model, opened(self.workspace) as store:
            self.tick()
            thinking = replace(store, config=asking(model))
            with suppress(KeyboardInterrupt):
                self.dreamt(thinking, kill)
            if killed:
                self.act(acts, notes)
                if len(acts) > 1:
                    settle_document(store)
                self.dreamt(thinking, kill)
            self.check(store, done)
            last = store.lineage.last_version()
            settle_document(store)
            assert store.memory.take_in() == TakenIn()
            assert store.lineage.last_version() == last
        self.buffers.append(self.file())

    def dreamt(self, store: Store, kill: Callable[[Step], None]) -> None:
        try:
            dream_now(store, Reason.MANUAL, Mode.AUTO, kill)
        except RejectedError:
            settle_document(store)  # as the next dream does

    @rule(back=st.integers(1, 2))
    def undo(self, back: int) -> None:
        """A restore has the lines of its version, and another one those of before the first."""
        with opened(self.workspace) as store:
            last = store.lineage.standing()[0]
            if last > back:
                texts = [store.memory.text(last - back), self.file()]
                for number, text in zip((last - back, last), texts, strict=True):
                    self.tick()
                    restore(store, number)
                    assert lines_in(self.file()) == lines_in(text)
        assert self.noted <= lived.places(self.workspace).keys()

    @rule()
    def take_back(self) -> None:
        """The last change that can be is undone: its old lines stand again."""
        with opened(self.workspace) as store:
            self.tick()
            for one in [one for one in latest_entries(store, 9) if one.undoable][:1]:
                assert undo(store, [one.name]).undone == (one.name,)
                assert {line.text for line in one.old} <= texts_in(self.file()).keys()
                self.deleted |= {line.text for line in one.new}

    # What others do meanwhile.

    def act(self, acts: Which, notes: list[str]) -> None:
        read = before = self.file()
        for act, which in acts:
            before = self.file() if self.file().strip() else before
            if act in ("append", "note"):
                self.note(1, appended=act == "append")
            elif act == "unlink":
                self.workspace.document.unlink(missing_ok=True)
            else:
                self.workspace.document.write_text(self.saved(self.file(), act, which, notes), encoding="utf-8")
            if after := self.file().strip():
                self.deleted |= every_text(before) - every_text(after)
        self.said |= every_text(self.file()) - every_text(read)

    def saved(self, text: str, act: str, which: int, notes: list[str]) -> str:
        """What its owner makes of the file."""
        lines = [one.text for name, one in parse(text).lines() if name in _SECTIONS and not one.pinned]
        line, section = lines[which % len(lines)] if lines else "", _SECTIONS[which % 3]
        if act == "write":
            return put(text, self.text(), section)
        if act == "repeat":
            return put(text, notes[which % len(notes)], section)
        if act == "prose":
            return f"A word of mine, {which}.\n\n{text}" if which % 2 else f"{text}\n## Mine\n\n- own {which}\n"
        if act == "old_buffer":
            return self.buffers[which % len(self.buffers)] if self.buffers else text
        if act == "empty":
            return ""
        new = {"change": re.sub(r"\w+$", _PLACES[which % 16], line), "pin": line + _PIN}.get(act, "")
        text = re.sub(rf"^- {re.escape(line)}\n", f"- {new}\n" if new else "", text, count=1, flags=re.MULTILINE)
        return put(text, line, section) if act == "move" and line else text

    # What has to be so.

    def check(self, store: Store, done: dict[str, set[str]]) -> None:
        file = self.file()
        assert Counter(line.text for line in store.lineage.current_lines()) == texts_in(file)
        assert store.lineage.text(store.lineage.standing()[0]) == file
        assert store.ledger.unfinished() is None
        assert self.noted <= lived.places(self.workspace).keys()
        assert self.said - self.deleted <= lived.remembered(self.workspace) | every_text(file)
        assert set(store.lineage.tombstones()) <= self.deleted
        owners = lived.rows(self.workspace, "SELECT text FROM lines WHERE trust = 'owner'")
        assert {row["text"] for row in owners} <= self.said | self.deleted
        evicted = {row["text"] for row in lived.rows(self.workspace, "SELECT text FROM lines WHERE fate = 'evicted'")}
        waiting = [one.operation for one in Proposals(store.connection).all()]
        pending = {one.text for one in store.notes.each_pending()}
        for text, gone in done.items():  # what a note was for is done, or it waits, or its owner undid it
            if text not in {*pending, *evicted, *self.deleted, *(one.text for one in waiting)}:
                named = store.lineage.lines(name for one in waiting for name in one.lines)
                asked = {line.text for line in named.values()}
                assert not gone & (texts_in(file).keys() - asked) if gone else text in texts_in(file)
        for version in store.lineage.versions(3):
            self.check_record(store, version.number)

    def check_record(self, store: Store, number: int) -> None:
        """What a version says of itself is what became of its text."""
        one = store.memory.version(number)
        former = store.lineage.versions_by_number([number - 1]).get(number - 1)
        if former is not None and one.cause != "restore":
            before = texts_in(one.before)
            before.subtract(line.text for line, _ in one.left if not line.above)
            before.update(line.text for line in one.came)
            assert +before == texts_in(one.after)
        assert all(store.crystals.get([line.crystal]) for line, _ in one.left)

    # Helpers.

    def tick(self) -> None:
        follow_clock(utc_now() + timedelta(seconds=2), time.monotonic())

    def text(self) -> str:
        number = next(self.numbers)
        return f"The {_THINGS[number % 13]} number {number} belongs to {_PLACES[number // 7 % 16]}"

    def note(self, many: int, *, appended: bool = False) -> list[str]:
        texts = [self.text() for _ in range(many)]
        self.noted |= set(texts)
        for text in texts:
            if appended:
                with self.workspace.scratch.open("a", encoding="utf-8") as file:
                    file.write(f"- {text}\n")
            else:
                NoteInbox(self.workspace).append(Note(text, utc_now(), 0.8))
        return texts

    def file(self) -> str:
        return lived.document(self.workspace)


def asking(model: ScriptedModel) -> Config:
    return Config(model=ModelSection(name="openai/gpt-4o-mini", api_base=model.url))


def answered(operations: Operations) -> str:
    return json.dumps({"operations": operations, "consumed": []})


def carried_out(request: dict[str, Any], plan: Which, notes: list[str], done: dict[str, set[str]]) -> Operations:
    """For each note one operation; `done` gets by the note what an eviction takes out, and nothing for others.

    A line that is added takes in one of before the first dream.
    """
    lines = [(name, text) for name, pinned, text in lines_of(request) if not pinned and "search:" not in text]
    inputs = {text: name for name, _, text in inputs_of(request)}
    operations = Operations()
    for (wanted, which), text in zip(plan, notes, strict=True):
        many = {"merge": 2, "add": 0}.get(wanted, 1)
        kind = wanted if len(lines) >= many else "add"
        old = [lines.pop(which % len(lines)) for _ in range(many)] if kind != "add" else []
        above = [name for name in inputs.values() if name[0] == "T"][:1] if kind == "add" else []
        said: dict[str, Any] = {"op": kind, "cites": [inputs[text], *above], "section": _SECTIONS[which % 3].value}
        said |= {"lines": [name for name, _ in old]} if kind == "merge" else {"line": old[0][0]} if old else {}
        operations.append(said | ({"topic": "old things"} if kind == "evict" else {"text": text}))
        if kind != "move":
            done[text] = {line for _, line in old} if kind == "evict" else set()
    return operations


def evicting_its_own(request: dict[str, Any]) -> Operations:
    """A line leaves again that the first answer wrote."""
    told = str(request["messages"][-1]["content"])
    own = re.findall(r"^- (?:add|revise|merge) .*: (L\d+)$", told, re.MULTILINE)
    return [{"op": "evict", "line": line, "topic": "new things", "cites": ["N1"]} for line in own[:1]]


def put(text: str, line: str, section: SectionName) -> str:
    """The text with one more line in a section, if it has that."""
    return added(text, line, section) if f"## {section.value}\n" in text else f"{text}\n- {line}\n"


def texts_in(text: str) -> Counter[str]:
    return Counter(block.text for _, block in parse(text).lines())


def every_text(text: str) -> set[str]:
    return {block.text for part in parse(text).parts for block in part.lines}


def lines_in(text: str) -> list[tuple[str, str]]:
    return sorted((name.value, block.text) for name, block in parse(text).lines())


TestMeanwhile = Meanwhile.TestCase
TestMeanwhile.settings = examples(60, stateful_step_count=3, deadline=None)

KETTLE, LIMA, RIGA = (f"The kettle belongs to {place}" for place in ("Oslo", "Lima", "Riga"))
ZITHER, BREST, MINE = "The zither is of Rome", "The zither is of Brest", "My own line"
SAID, NEEDLESS = "Oslo: the kettle belongs to it", "We need no kettle"
REVISES: Operations = [{"op": "revise", "line": "L1", "text": LIMA, "cites": ["N1"]}]
EVICTS: Operations = [{"op": "evict", "line": "L1", "topic": "kettles", "cites": ["N1"]}]
SAYS: Operations = [{"op": "add", "section": "The Bond", "text": SAID, "cites": ["N1"]}]
REPEATS: Operations = [{"op": "add", "section": "The Bond", "text": RIGA, "cites": ["N1"]}]
# Its own line is L2: the number that a line gets which the owner writes meanwhile.
REVISES_ITS_OWN: Operations = [
    {"op": "add", "section": "Active Context", "text": ZITHER, "cites": ["N1"]},
    {"op": "revise", "line": "L2", "text": BREST, "cites": ["N2"]},
]


@contextmanager
def begun(
    folder: Path, thinks: Script, *notes: str, before: str = ""
) -> Iterator[tuple[Store, Store, ScriptedModel]]:
    """Open a workspace after a dream over these notes, also with a model that thinks so."""
    workspace = init_workspace(folder)
    if before:
        write(workspace, lambda _: before)
    with ScriptedModel(thinks) as model, opened(workspace) as store:
        if notes:
            dreamt(store, *notes)
        yield store, replace(store, config=asking(model)), model


def saying(new: str) -> Callable[[str], str]:
    """The text with this in the place of the kettle's line."""
    return lambda text: text.replace(f"- {KETTLE}\n", f"- {new}\n" if new else "")


def moved(text: str) -> str:
    return put(saying("")(text), KETTLE, SectionName.BOND)


def writing(*lines: str) -> Callable[[str], str]:
    return lambda text: reduce(lambda file, line: put(file, line, SectionName.CONTEXT), lines, text)


@pytest.mark.parametrize(
    ("operations", "notes", "save", "stand", "wait"),
    [
        (REVISES, [LIMA], writing(MINE), {LIMA, MINE}, set()),
        (REVISES, [LIMA], saying(RIGA), {RIGA}, {LIMA}),
        (REVISES, [LIMA], saying(""), set(), {LIMA}),
        (REVISES, [LIMA], saying(KETTLE + _PIN), {KETTLE}, {LIMA}),
        (REVISES, [LIMA], moved, {KETTLE}, {LIMA}),
        (EVICTS, [NEEDLESS], saying(KETTLE + _PIN), {KETTLE}, {NEEDLESS}),
        (SAYS, [SAID], saying(""), set(), {SAID}),
        (REPEATS, [RIGA], writing(RIGA), {KETTLE, RIGA}, set()),
        (REVISES_ITS_OWN, [ZITHER, BREST], writing(ZITHER, MINE), {KETTLE, ZITHER, MINE}, {BREST}),
    ],
)
def test_what_its_owner_saves_meanwhile_stays_and_what_gives_way_comes_again(
    tmp_path: Path,
    operations: Operations,
    notes: list[str],
    save: Callable[[str], str],
    stand: set[str],
    wait: set[str],
) -> None:
    def thinks(_: dict[str, Any], __: int) -> str:
        write(store.workspace, save)
        return answered(operations)

    with begun(tmp_path, thinks, KETTLE) as (store, thinking, _):
        done = dreamt(thinking, *notes)
        assert texts_in(lived.document(store.workspace)).keys() == stand
        assert {one.text for one in store.notes.each_pending()} == wait
        assert (done.pending, done.dream.notes) == (len(wait), len(notes) - len(wait))
        why = [one.figures for one in done.refused]
        assert why.count("its owner changed MEMORY.md there meanwhile") == len(wait)
        owners = {line.text for line in store.lineage.current_lines() if line.trust is Trust.OWNER}
        assert owners == stand & {MINE, ZITHER, RIGA}


def test_what_a_session_said_is_new_again_where_its_line_gave_way(tmp_path: Path) -> None:
    def thinks(_: dict[str, Any], __: int) -> str:
        write(store.workspace, saying(RIGA))
        return answered([{"op": "revise", "line": "L1", "text": LIMA, "cites": ["C2"]}])

    with begun(tmp_path, thinks, KETTLE) as (store, thinking, _):
        store.crystals.learn(Crystal(one, Origin.SESSION, utc_now(), importance=0.4) for one in (ZITHER, LIMA))
        dreamt(thinking)
        assert new_input(store) == 1
        assert [one.text for one in store.crystals.undreamt()] == [LIMA]


@pytest.mark.parametrize("save", [writing(MINE), lambda text: text.replace("- Grandma bakes cakes on Fridays\n", "")])
def test_old_text_that_a_note_repeats_stands_once_after_a_save(tmp_path: Path, save: Callable[[str], str]) -> None:
    said = "Grandma bakes on Fridays"

    def thinks(_: dict[str, Any], __: int) -> str:
        write(store.workspace, save)
        return answered([{"op": "add", "section": "The Bond", "text": said, "cites": ["N1"]}])

    with begun(tmp_path, thinks, "Grandma bakes cakes on Fridays", before=_OLD) as (store, thinking, _):
        dreamt(thinking, said)
        assert lived.document(store.workspace).count(f"- {said}\n") == 1


def test_a_save_while_the_first_dream_thinks_is_what_it_began_with(tmp_path: Path) -> None:
    def thinks(request: dict[str, Any], number: int) -> str:
        write(store.workspace, writing(MINE))
        return good(request, number)

    with begun(tmp_path, thinks, before=_SCHEMA) as (store, thinking, _):
        assert dreamt(thinking, LIMA).dream.number == 1
        before = {*texts_in(_SCHEMA), MINE}
        assert texts_in(lived.document(store.workspace)).keys() == before | {LIMA}
        assert {one.text for one in store.lineage.current_lines() if one.trust is Trust.OWNER} == before
        assert store.lineage.tombstones() == []


@pytest.mark.parametrize("save", [writing(MINE), saying("")])
def test_an_interrupted_dream_that_would_be_told_something_else_by_now_begins_anew(
    tmp_path: Path, save: Callable[[str], str]
) -> None:
    def kill(step: Step) -> None:
        if step.node == "guard":
            raise KeyboardInterrupt

    with begun(tmp_path, good, KETTLE) as (store, thinking, model):
        noted(store, BREST)
        with suppress(KeyboardInterrupt):
            dream_now(thinking, Reason.MANUAL, Mode.AUTO, kill)
        saved = texts_in(write(store.workspace, save)).keys()
        settle_document(store)
        done = dreamt(thinking, RIGA)
        assert (model.count, done.dream.notes, done.pending) == (2, 2, 0)
        assert texts_in(lived.document(store.workspace)).keys() == saved | {BREST, RIGA}
        assert len({one.id for one in store.lineage.current_lines()}) == len(saved) + 2


@pytest.mark.parametrize("what", ["the same line", "another line"])
def test_a_save_in_the_instant_of_an_edit_stays_and_one_of_the_same_line_refuses_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    is_same = what == "the same line"

    def saves(store: Store, now: datetime) -> int:
        write(store.workspace, saying(RIGA) if is_same else writing(MINE))
        return absorb_notes(store, now)

    with opened(init_workspace(tmp_path)) as store:
        dreamt(store, KETTLE)
        monkeypatch.setattr(memory, "absorb_notes", saves)  # it is the first step of a commit
        wishes = [Wish(LineAction.EDIT, "L1", expected=KETTLE, text=LIMA)]
        with pytest.raises(ConflictError) if is_same else nullcontext():
            change(store, wishes)
        monkeypatch.undo()
        settle_document(store)
        assert texts_in(lived.document(store.workspace)).keys() == ({RIGA} if is_same else {LIMA, MINE})
        assert store.ledger.unfinished() is None


def test_a_save_in_the_instant_of_a_restore_refuses_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would have the lines of its version, and not the text around them."""

    def saves(store: Store) -> None:
        settle_document(store)
        monkeypatch.undo()
        write(store.workspace, writing(RIGA))

    with opened(init_workspace(tmp_path)) as store:
        dreamt(store, KETTLE)
        write(store.workspace, lambda text: f"A word of mine.\n\n{writing(MINE)(saying('')(text))}")
        monkeypatch.setattr(restoring, "settle_document", saves)
        with pytest.raises(ConflictError):
            restore(store, 1)
        assert texts_in(lived.document(store.workspace)).keys() == {MINE, RIGA}
        assert store.ledger.unfinished() is None
        restore(store, 1)
        assert lived.document(store.workspace) == store.memory.text(1)
