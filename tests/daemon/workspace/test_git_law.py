"""Whatever a person, git, a colleague and dreams do to one MEMORY.md: no note and no edit is lost or invented."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from daemon.config.settings import Config, ModelSection
from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace
from daemon.workspace.document import read_document
from daemon.workspace.stores import Store, follow_clock, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.document.document import parse
from state.document.merge import is_conflicted
from state.dream import Reason
from state.scratch import Note
from state.stores.git.exclude import keep_out, written_by_init
from state.stores.vectors.embedder import Unavailable
from tests.support import lived
from tests.support.folders import PLACE
from tests.support.long_variants import examples
from tests.support.model_characters import good
from tests.support.repository import ENVIRONMENT
from tests.support.scripted_model import ScriptedModel

_THINGS = (
    "harbour lantern kettle orchard violin compass anvil basket candle dormouse ember ferry glacier hammock"
    " inkwell jacket knapsack ladder meadow nutmeg oyster parasol quarry rooster saddle teapot umbrella vineyard"
    " walnut yarrow zither acorn blanket cobbler dagger eyelash falcon gravel herring icicle"
).split()
_PLACES = (
    "Oslo Lima Cairo Tunis Delhi Quito Paris Turin Basel Riga Accra Dakar Hanoi Seoul Osaka Perth Malmo Porto Ghent"
    " Leeds Derry Split Varna Izmir Baku Tomsk Omsk Minsk Lviv Brno Graz Linz Ulm Bonn Kiel Nice Lyon Metz Brest Caen"
).split()


class Person(RuleBasedStateMachine):
    """A repository in which all of them are at work; what must be so is known from what was done."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(os.path.realpath(tempfile.mkdtemp(prefix="git-", dir=PLACE)))
        self.numbers = count()
        self.noted: list[str] = []
        self.wanted: set[str] = set()
        """Lines that have to be in the memory."""
        self.unwanted: set[str] = set()
        """Lines that must not be there any more."""
        self.may_say: set[str] = set()
        self.may_delete: set[str] = set()
        self.written: list[str] = []
        self.deleted: list[str] = []
        self.is_touched = False
        """Whether git may have changed the file since the last dream."""

    def teardown(self) -> None:
        follow_clock(datetime.now(UTC), time.monotonic())
        shutil.rmtree(self.root)

    @initialize(tracked=st.booleans())
    def begin(self, *, tracked: bool) -> None:
        self.git("init", "-q", "-b", "main")
        (self.root / "README").write_text("A project\n", encoding="utf-8")
        self.workspace = init_workspace(self.root)
        kept = written_by_init(self.workspace)
        keep_out(self.root, kept[1:] if tracked else kept)
        self.dream()
        self.commit()

    @rule()
    def note(self) -> None:
        text = self.text()
        with self.opened() as store:
            store.notes.inbox.append(Note(text, utc_now(), 0.8))
        self.noted.append(text)

    @rule()
    def dream(self) -> None:
        self.note()
        follow_clock(utc_now() + timedelta(seconds=2), time.monotonic())  # nobody dreams twice in a second
        before = self.file()
        with self.opened() as store:
            dream_now(store, Reason.MANUAL, Mode.AUTO)
            memory = lines_of(read_document(store.workspace, store.connection)[0])
        self.wanted |= set(self.noted) - self.may_delete
        if is_conflicted(before):
            assert self.file() == before
        else:
            self.wanted -= set(self.deleted)
            if not self.is_touched:
                self.wanted |= set(self.written)
                self.unwanted |= set(self.deleted)
            found = set(self.written) & lines_of(before)
            assert found <= memory | lived.remembered(self.workspace)
            assert memory == lines_of(self.file())
            self.written, self.deleted, self.is_touched = [], [], False
        assert self.wanted <= memory
        assert not self.unwanted & memory

    @rule(stashes=st.booleans(), back=st.integers(0, 2))
    def think(self, back: int, *, stashes: bool) -> None:
        """A dream whose model thinks while git changes the file (what a person saves meanwhile: test_meanwhile)."""
        self.note()

        def answered(request: dict[str, Any], number: int) -> str:
            if number == 1:
                self.stash() if stashes else self.check_out(back)
            return good(request, number)

        with ScriptedModel(answered) as model, self.opened() as store:
            follow_clock(utc_now() + timedelta(seconds=2), time.monotonic())
            thinking = replace(
                store, config=Config(model=ModelSection(name="openai/gpt-4o-mini", api_base=model.url))
            )
            dream_now(thinking, Reason.MANUAL, Mode.AUTO)
            memory = lines_of(read_document(store.workspace, store.connection)[0])
        assert set(self.noted) - self.may_delete <= memory
        self.wanted -= set(self.deleted)  # which it may have read before git did anything

    @precondition(lambda self: not self.is_torn())
    @rule()
    def write(self) -> None:
        text = self.text()
        self.edit(self.file().replace("## Active Context\n\n", f"## Active Context\n\n- {text}\n"))
        self.written.append(text)
        self.may_say.add(text)

    @precondition(lambda self: not self.is_torn() and len(self.deleted) < 3)
    @rule(which=st.integers(0, 99))
    def delete(self, which: int) -> None:
        found = sorted(lines_of(self.file()))
        if found:
            line = found[which % len(found)]
            self.edit("".join(row for row in self.file().splitlines(keepends=True) if line not in row))
            self.deleted.append(line)
            self.may_delete.add(line)
            if line in self.written:
                self.written.remove(line)

    @rule()
    def commit(self) -> None:
        if not self.is_torn():
            self.git("add", "-A")
            self.git("commit", "-q", "--allow-empty", "-m", "all")

    @precondition(lambda self: not self.is_torn())
    @rule()
    def stage(self) -> None:
        self.git("add", "-A")

    @rule()
    def unstage(self) -> None:
        self.touch("reset", "-q")

    @rule(which=st.integers(0, 9), new=st.booleans())
    def switch(self, which: int, *, new: bool) -> None:
        branches = self.branches()
        words = ["-c", f"branch-{next(self.numbers)}"] if new else [branches[which % len(branches)]]
        self.touch("switch", "-q", *words)

    @rule()
    def stash(self) -> None:
        self.touch("stash")

    @rule()
    def pop(self) -> None:
        self.touch("stash", "pop")

    @rule(which=st.integers(0, 9))
    def merge(self, which: int) -> None:
        branches = self.branches()
        self.touch("merge", "-q", "--no-edit", branches[which % len(branches)])

    @rule()
    def give_up(self) -> None:
        self.touch("merge", "--abort")

    @rule(which=st.integers(0, 9))
    def rebase(self, which: int) -> None:
        branches = self.branches()
        self.touch("rebase", "-q", branches[which % len(branches)])

    @rule()
    def give_up_rebase(self) -> None:
        self.touch("rebase", "--abort")

    @rule(back=st.integers(0, 3))
    def reset(self, back: int) -> None:
        self.touch("reset", "-q", "--hard", f"HEAD~{back}")

    @rule(back=st.integers(0, 3))
    def check_out(self, back: int) -> None:
        self.touch("checkout", "-q", f"HEAD~{back}")

    @rule()
    def colleague(self) -> None:
        """Somebody else commits a line on a branch that begins here."""
        self.begin_theirs()

    @precondition(lambda self: not self.is_torn())
    @rule(how=st.sampled_from(("merge", "rebase", "pop")), sleeps=st.booleans())
    def clash(self, how: str, *, sleeps: bool) -> None:
        """Two of them change the same place, and meet."""
        self.commit()
        theirs = "" if how == "pop" else self.begin_theirs()
        if how == "pop":
            self.write()
            self.touch("stash")
        if sleeps:
            self.write()
        else:
            self.dream()
        self.commit()
        self.touch(*(("stash", "pop") if how == "pop" else (how, "-q", theirs)))

    def begin_theirs(self) -> str:
        text = self.git("show", "HEAD:MEMORY.md")
        theirs = text.replace("## Active Context\n\n", f"## Active Context\n\n- {self.text()}\n")
        blob = self.git("hash-object", "-w", "--stdin", given=theirs).strip()
        index = {"GIT_INDEX_FILE": str(self.root / ".git" / "theirs")}
        self.git("read-tree", "HEAD", **index)
        self.git("update-index", "--cacheinfo", f"100644,{blob},MEMORY.md", **index)
        tree = self.git("write-tree", **index).strip()
        made = self.git("commit-tree", tree, "-p", "HEAD", "-m", "theirs").strip()
        name = f"branch-{next(self.numbers)}"
        self.git("branch", name, made)
        return name

    @precondition(lambda self: self.is_torn())
    @rule(side=st.sampled_from(("ours", "theirs", "both")), add=st.booleans())
    def resolve(self, side: str, *, add: bool) -> None:
        """What is left of a conflict is what the person wants, as far as it was the memory's."""
        with self.opened() as store:
            memory = lines_of(read_document(store.workspace, store.connection)[0])
        self.edit(resolved(self.file(), side))
        left = lines_of(self.file())
        self.may_say |= left
        self.may_delete |= memory - left
        self.wanted &= left
        self.unwanted -= left
        self.is_touched = True
        if add:
            self.git("add", "-A")
            self.git("commit", "-q", "-m", "resolved")

    @invariant()
    def nothing_is_lost_and_nothing_is_invented(self) -> None:
        if not hasattr(self, "workspace") or not self.workspace.database.exists():
            return
        assert set(self.noted) <= lived.remembered(self.workspace)
        tombstones = {row["text"] for row in lived.rows(self.workspace, "SELECT text FROM tombstones")}
        assert tombstones <= self.may_delete
        said = {row["text"] for row in lived.rows(self.workspace, "SELECT text FROM lines WHERE trust = 'owner'")}
        assert said <= self.may_say

    def opened(self) -> AbstractContextManager[Store]:
        return open_exclusive(self.workspace, Config(), "a test", embedding=Embedding.given(Unavailable("not here")))

    def git(self, *words: str, given: str = "", **more: str) -> str:
        environment = {**ENVIRONMENT, **more}
        ended = subprocess.run(
            ["git", *words], cwd=self.root, env=environment, input=given, capture_output=True, text=True, check=False
        )
        return ended.stdout if ended.returncode == 0 else ""

    def touch(self, *words: str) -> None:
        """Let git do something to the file, or refuse it."""
        before = self.file()
        self.git(*words)
        self.is_touched = self.is_touched or self.file() != before

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    def text(self) -> str:
        number = next(self.numbers)
        thing, place = _THINGS[number % len(_THINGS)], _PLACES[number // 7 % len(_PLACES)]
        return f"The {thing} number {number} belongs to {place}"

    def file(self) -> str:
        path = self.root / "MEMORY.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def edit(self, text: str) -> None:
        (self.root / "MEMORY.md").write_text(text, encoding="utf-8")

    def is_torn(self) -> bool:
        return is_conflicted(self.file())


def lines_of(text: str) -> set[str]:
    return {block.text for _, block in parse(text).lines()}


def resolved(text: str, side: str) -> str:
    """The text without markers, with one side of each conflict or both."""
    rows, at = list[str](), ""
    for row in text.splitlines(keepends=True):
        if row.startswith("<<<<<<<"):
            at = "ours"
        elif row.startswith("=======") and at:
            at = "theirs"
        elif row.startswith(">>>>>>>"):
            at = ""
        elif not at or side in (at, "both"):
            rows.append(row)
    return "".join(rows)


TestPerson = Person.TestCase
TestPerson.settings = examples(60, stateful_step_count=25, deadline=None)


@pytest.fixture
def person() -> Iterator[Person]:
    """One whose repository tracks MEMORY.md."""
    one = Person()
    try:
        one.begin(tracked=True)
        yield one
    finally:
        one.teardown()


@pytest.mark.parametrize("edits", [False, True])
def test_a_reset_out_of_a_conflict_is_nobodys_save(person: Person, *, edits: bool) -> None:
    """A dream meanwhile could not be written into the file, which git then makes an earlier version."""
    person.clash("merge", sleeps=False)
    assert person.is_torn()
    person.dream()
    person.reset(1)
    if edits:
        person.write()
        person.commit()
    person.dream()


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_edit_beside_a_reset_of_the_index_alone_stays_an_edit(person: Person, *, is_packed: bool) -> None:
    if is_packed:
        person.git("gc", "-q")
    person.dream()
    person.stage()
    person.dream()  # what is in the index by now is noted
    person.write()
    person.delete(1)  # git has it in no commit
    person.unstage()
    person.dream()
    assert person.unwanted


@pytest.mark.parametrize("words", [["status"], ["switch", "-q", "-c", "new"], ["reset", "-q"]])
def test_what_leaves_head_where_it_is_gives_up_no_conflict_that_was_resolved(
    person: Person, words: list[str]
) -> None:
    theirs = person.begin_theirs()
    person.dream()
    person.commit()
    (person.root / "README").write_text("Our project\n", encoding="utf-8")
    person.commit()
    person.touch("rebase", "-q", theirs)
    assert person.is_torn()
    person.dream()
    person.resolve("both", add=False)
    left = lines_of(person.file())
    person.git("add", "-A")
    person.git("-c", "core.editor=true", "rebase", "--continue")
    person.touch(*words)
    person.dream()
    assert left < lines_of(person.file())


def test_what_is_committed_after_a_reset_is_a_persons(person: Person) -> None:
    person.reset(0)
    person.delete(0)
    person.write()
    person.commit()
    person.dream()
    assert person.may_delete
    assert not person.may_delete & lines_of(person.file())
    assert person.may_say <= lines_of(person.file())


def test_an_edit_after_a_reset_in_the_middle_of_a_rebase_is_all_that_a_person_said(person: Person) -> None:
    person.clash("rebase", sleeps=True)
    assert person.is_torn()
    person.dream()
    person.reset(0)  # of which HEAD's log says nothing
    person.write()
    person.note()
    person.nothing_is_lost_and_nothing_is_invented()
    person.dream()


def test_an_edit_after_a_rebase_that_was_given_up_is_all_that_a_person_said(person: Person) -> None:
    """A dream made a version while the conflict stood; the lines that git brings back are a colleague's."""
    person.touch("merge", "-q", person.begin_theirs())
    person.clash("rebase", sleeps=True)
    assert person.is_torn()
    person.dream()
    person.give_up_rebase()
    person.write()
    person.note()  # which opens the workspace
    person.nothing_is_lost_and_nothing_is_invented()
    person.dream()
