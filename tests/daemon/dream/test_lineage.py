"""A line's wordings are one thing: corrected, superseded, found and told of as one, whoever words it anew."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.api.operations.search import recall
from daemon.config.settings import Config
from daemon.dream.proposals import open_proposals, settle
from daemon.dream.run import Mode, dream_now
from daemon.dream.standing import Line
from daemon.journal.correct import put_right
from daemon.journal.lines import change
from daemon.journal.mentions import subject_of
from daemon.journal.restore import restore
from daemon.journal.undo import undo
from daemon.workspace.stores import Store, utc_now
from graphs.correction import NOT_TRUE
from graphs.review import LineAction, Wish
from state.crystals.crystal import Origin
from state.document.sections import SectionName
from state.dream import Reason
from state.scratch import Note
from state.search.ranking import Hit
from tests.support.committing import dreamt, thinking
from tests.support.model_characters import inputs_of, lines_of
from tests.support.working import standing, wish

BOND, CONTEXT = SectionName.BOND.value, SectionName.CONTEXT.value
SLOW, FAST = "Kestrel's price feed publishes each 20 s.", "Kestrel's price feed publishes each 15 s."
SLOW_NOTE = "The price feed of Kestrel publishes every 20 s"
MONDAYS = {"Kestrel's deploys are on Mondays."}
FAST_NOTE = "From today on the price feed of Kestrel publishes every 15 s"


class Dreamer:
    """A workspace whose model answers with the operations it is given: {"line": text} names a line by its text."""

    def __init__(self, store: Store, script: list[list[dict[str, Any]]]) -> None:
        self.store, self._script = store, script

    def dream(self, *notes: str, does: list[dict[str, Any]], then: Sequence[dict[str, Any]] = ()) -> None:
        """Note these texts, and dream with these operations, then those; "cites" holds words of notes."""
        self._script[:] = [does, list(then)]
        dreamt(self.store, *notes)

    def find(self, question: str, *, everything: bool = False) -> list[Hit]:
        return list(recall(self.store, question, everything=everything).hits)

    def line(self, text: str) -> Line:
        return standing(self.store)[text]

    def superseded(self) -> set[str]:
        keys = range(1, self.store.crystals.newest() + 1)
        current = self.store.supersessions.among(keys).current
        return {self.store.crystals.by_keys([key])[key].text for key in current}


@contextmanager
def dreaming(root: Path) -> Iterator[Dreamer]:
    script: list[list[dict[str, Any]]] = []

    def answer(request: dict[str, Any], _number: int) -> str:
        lines = {text: name for name, _, text in lines_of(request)}
        notes = {text: name for name, _, text in inputs_of(request)}
        operations = []
        for given in script.pop(0) if script else []:
            one = dict(given)
            one["lines"] = [lines.get(text, text) for text in one.get("lines", ())]
            one["cites"] = [
                name for text, name in notes.items() if any(words in text for words in one.get("cites", ()))
            ]
            operations.append(one)
        return json.dumps({"operations": operations, "consumed": list(notes.values())})

    with thinking(root, answer) as (_, store):
        yield Dreamer(store, script)


@pytest.fixture
def dreamer(tmp_path: Path) -> Iterator[Dreamer]:
    with dreaming(tmp_path / "agent") as made:
        yield made


def add(text: str, *cites: str, section: str = BOND) -> dict[str, Any]:
    return {"op": "add", "section": section, "text": text, "cites": list(cites)}


def revise(line: str, text: str, *cites: str) -> dict[str, Any]:
    return {"op": "revise", "lines": [line], "text": text, "cites": list(cites)}


def test_a_search_gives_a_line_as_it_is_now_and_tells_what_it_said_before(dreamer: Dreamer) -> None:
    dreamer.dream(SLOW_NOTE, does=[add(SLOW, "20 s")])
    found = {hit.crystal.text: bool(hit.line) for hit in dreamer.find("How often does Kestrel's feed publish?")}
    assert found == {SLOW: True, SLOW_NOTE: False}
    draft = "Kestrel's price feed publishes each quarter of a minute."
    dreamer.dream(FAST_NOTE, does=[revise(SLOW, draft, "15 s"), add("x")], then=[revise("L2", FAST, "15 s")])
    hits = dreamer.find("How often does Kestrel's feed publish now?")
    assert [hit.crystal.text for hit in hits if hit.crystal.origin is Origin.LINE] == [FAST]
    assert hits[0].crystal.text == FAST
    assert hits[0].line == dreamer.line(FAST).id
    assert [(one.text, one.is_draft) for one in hits[0].former] == [(draft, True), (SLOW, False)]
    assert dreamer.superseded() == {SLOW, SLOW_NOTE}
    assert SLOW_NOTE not in [hit.crystal.text for hit in hits]
    every = dreamer.find("How often does Kestrel's feed publish now?", everything=True)
    assert {hit.crystal.text: hit.superseded_by.text for hit in every if hit.superseded_by} == {SLOW_NOTE: FAST}


def test_what_is_asked_for_in_the_words_of_before_is_told_as_it_is_now(dreamer: Dreamer) -> None:
    dreamer.dream(SLOW_NOTE, does=[add(SLOW, "20 s")])
    dreamer.dream(FAST_NOTE, does=[revise(SLOW, FAST, "15 s")])
    hits = dreamer.find(SLOW)
    assert SLOW not in [hit.crystal.text for hit in hits]
    assert [one.text for hit in hits if hit.crystal.text == FAST for one in hit.former] == [SLOW]


def test_a_wording_that_is_undone_is_told_beneath_what_came_back(dreamer: Dreamer) -> None:
    dreamer.dream(SLOW_NOTE, does=[add(SLOW, "20 s")])
    dreamer.dream(FAST_NOTE, does=[revise(SLOW, FAST, "15 s")])
    undo(dreamer.store, ["2"])
    hits = {hit.crystal.text: hit for hit in dreamer.find("How often does Kestrel's price feed publish?")}
    assert FAST not in hits
    assert hits[SLOW].line == dreamer.line(SLOW).id
    assert FAST in [one.text for one in hits[SLOW].former]


def test_a_value_that_comes_back_is_current_again(dreamer: Dreamer) -> None:
    dreamer.dream(SLOW_NOTE, does=[add(SLOW, "20 s")])
    dreamer.dream(FAST_NOTE, does=[revise(SLOW, FAST, "15 s")])
    dreamer.dream("Kestrel is back to 20 s", does=[revise(FAST, SLOW, "back to")])
    hits = dreamer.find("How often does Kestrel's price feed publish?")
    assert hits[0].crystal.text == SLOW
    assert not hits[0].superseded_by
    assert SLOW not in dreamer.superseded()


def test_a_rewording_inherits_evidence_trust_and_authorship(dreamer: Dreamer) -> None:
    dreamer.dream(SLOW_NOTE, does=[add(SLOW, "20 s")])
    reworded = "Each 20 s, Kestrel publishes its price feed."
    dreamer.dream("Ada has a cat", does=[revise(SLOW, reworded)])
    line, before = dreamer.line(reworded), dreamer.store.lineage.life("L1")
    assert before is not None
    after = dreamer.store.lineage.life(line.id)
    assert after is not None
    assert (after.evidence, after.trust) == (before.evidence, before.trust)
    assert line.id not in dreamer.store.lineage.handwritten()
    assert dreamer.superseded() == set()
    dreamer.dream(FAST_NOTE, does=[revise(reworded, FAST, "15 s")])
    assert dreamer.line(FAST)
    assert not open_proposals(dreamer.store)


def test_what_the_owner_wrote_stays_theirs_when_it_is_reworded_or_moved(dreamer: Dreamer) -> None:
    dreamer.dream("Ada has a cat", does=[])
    done = change(dreamer.store, [Wish(LineAction.ADD, section=SectionName.BOND, text="Ada wants answers in Dutch.")])
    assert done
    moved = {"op": "move", "lines": ["Ada wants answers in Dutch."], "section": CONTEXT}
    dreamer.dream("Ada has a dog", does=[moved | {"cites": ["dog"]}])
    ((asked, _),) = open_proposals(dreamer.store)
    settle(dreamer.store, [asked.number], ())
    assert dreamer.line("Ada wants answers in Dutch.").id in dreamer.store.lineage.handwritten()


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_weighed_line_keeps_its_birth_and_its_author_and_a_restore_takes_the_weight_back(
    dreamer: Dreamer,
    by_hand: bool,  # noqa: FBT001 - a case
) -> None:
    store, text = dreamer.store, "Ada wants answers in Dutch."
    dreamer.dream("Ada wants Dutch", does=[] if by_hand else [add(text, "Dutch")])
    if by_hand:
        change(store, [Wish(LineAction.ADD, section=SectionName.BOND, text=text)])
    (before,) = store.lineage.current_lines()
    number, rests = store.lineage.last_version(), store.lineage.evidence().get(before.id)
    weigh = {"op": "weigh", "lines": [text], "importance": 0.95, "until": "2199-04-02", "cites": ["dog"]}
    dreamer.dream("Ada has a dog", does=[weigh])
    if by_hand:  # the owner is asked
        settle(store, [one.number for one, _ in open_proposals(store)], ())
    (now,) = store.lineage.current_lines()
    assert now == replace(before, id=now.id, importance=0.95, until="2199-04-02")
    assert store.lineage.evidence().get(now.id) == rests
    assert store.lineage.handwritten() == ({now.id} if by_hand else set())
    restore(store, number)
    (back,) = store.lineage.current_lines()
    assert back == replace(before, id=back.id)
    assert store.lineage.handwritten() == ({back.id} if by_hand else set())


@pytest.mark.parametrize("how", ["move", "merge", "recall"])
def test_a_line_that_is_moved_merged_or_recalled_keeps_what_it_rests_on(dreamer: Dreamer, how: str) -> None:
    other = "Kestrel's deploys are on Mondays."
    dreamer.dream(SLOW_NOTE, "Deploys of Kestrel are on Mondays", does=[add(SLOW, "20 s"), add(other, "Mondays")])
    evidence = {line: dreamer.store.lineage.evidence()[dreamer.line(line).id] for line in (SLOW, other)}
    if how == "recall":
        gone = {"op": "evict", "lines": [SLOW], "topic": "Feed", "keywords": "kestrel feed"}
        dreamer.dream("Ada has a cat", does=[gone])
        pointer = next(one for one in dreamer.store.lineage.current_lines() if one.section is SectionName.POINTERS)
        does, text, kept = {"op": "recall", "lines": [pointer.id], "section": BOND}, SLOW, set(evidence[SLOW])
    elif how == "move":
        does, text, kept = {"op": "move", "lines": [SLOW], "section": CONTEXT}, SLOW, set(evidence[SLOW])
    else:
        text = "Kestrel's price feed publishes each 20 s, its deploys are on Mondays."
        does, kept = {"op": "merge", "lines": [SLOW, other], "text": text}, {*evidence[SLOW], *evidence[other]}
    dreamer.dream("Ada has a dog", does=[does])
    line = dreamer.line(text)
    assert kept <= set(dreamer.store.lineage.evidence()[line.id])
    assert line.id not in dreamer.store.lineage.handwritten()
    assert dreamer.superseded() == set()


BOTH = "Mara's office is in Hamburg-Altona, and Mara's birthday is on 3 May"
OFFICE, BIRTHDAY = "Mara's office is in Hamburg-Altona.", "Mara's birthday is on 3 May."


@pytest.mark.parametrize("also", [False, True])
@pytest.mark.parametrize("right", ["", "Mara's office is in Hamburg-Eppendorf."])
def test_what_is_wrong_is_the_line_and_not_another_one_from_the_same_note(
    dreamer: Dreamer, right: str, *, also: bool
) -> None:
    dreamer.dream(BOTH, does=[add(OFFICE, "Mara"), add(BIRTHDAY, "Mara")])
    line = dreamer.line(OFFICE)
    (note,) = dreamer.store.lineage.evidence()[line.id]
    told = (line.id, note) if also else (line.id,)
    put_right(dreamer.store, subject_of(dreamer.store, line.id), right, told)
    assert dreamer.superseded() == {OFFICE, *([BOTH] if also else [])}
    assert not dreamer.line(BIRTHDAY).superseded_by
    hits = dreamer.find("Where is Mara's office?")
    assert hits[0].crystal.text == (right or f"{NOT_TRUE}{OFFICE}")
    assert OFFICE not in [hit.crystal.text for hit in hits]
    assert OFFICE in [one.text for one in hits[0].former]


def test_of_a_line_that_was_put_away_the_pointer_goes_and_comes_back_with_it(dreamer: Dreamer) -> None:
    store = dreamer.store
    dreamer.dream(SLOW_NOTE, does=[add(SLOW, "20 s")])
    dreamer.dream(
        "Ada has a cat", does=[{"op": "evict", "lines": [SLOW], "topic": "Feed", "keywords": "kestrel feed"}]
    )
    (before,) = store.lineage.pointers(current=True)
    _, chosen = put_right(store, subject_of(store, before.crystal), FAST, ())
    assert [one.places[0].kind for one in chosen] == ["line put away", "memory", "pointer"]
    assert store.lineage.pointers(current=True) == []
    assert FAST in [one.note.text for one in store.notes.pending()]
    undo(store, [str(store.lineage.last_version())])
    (after,) = store.lineage.pointers(current=True)
    assert replace(after, line="") == replace(before, line="")
    assert dreamer.superseded() == {FAST}


@pytest.mark.parametrize(
    ("old", "note", "new", "marked"),
    [
        (SLOW, "Ada owns Kestrel's feed", "Kestrel's price feed publishes each 20 s; Ada owns it.", set()),
        (SLOW, "Kestrel's feed is the blue one", "Kestrel's price feed (the blue one) publishes each 20 s.", set()),
        (SLOW, FAST_NOTE, FAST, {SLOW, SLOW_NOTE}),
        (SLOW_NOTE, "Ada moved Kestrel's feed to Tuesdays", f"{SLOW_NOTE}, since it is Ada's on Tuesdays", set()),
        (
            SLOW_NOTE,
            "It is by Merlin",
            "The price feed of Merlin publishes every 20 s, read by Ada's team",
            {SLOW_NOTE},
        ),
    ],
    ids=["adds", "adds within", "changes", "adds to a note's words", "changes a note's words"],
)
def test_a_revision_supersedes_only_what_it_no_longer_says(
    dreamer: Dreamer, old: str, note: str, new: str, marked: set[str]
) -> None:
    dreamer.dream(SLOW_NOTE, does=[add(old, "20 s")])
    dreamer.dream(note, does=[revise(old, new, note)])
    assert dreamer.line(new)
    assert dreamer.superseded() == marked


@pytest.mark.parametrize(
    ("note", "new", "marked"),
    [
        (FAST_NOTE, "Kestrel: deploys on Mondays, price feed each 15 s.", {SLOW, SLOW_NOTE}),
        ("Kestrel's feed is the blue one", "Kestrel: deploys on Mondays, blue price feed each 20 s.", set()),
        ("Ada owns Kestrel's feed", "Kestrel: deploys on Mondays, price feed of Ada.", set()),
        ("Kestrel's deploys are on Fridays", "Kestrel: deploys on Fridays, price feed each 20 s.", MONDAYS),
    ],
    ids=["changes", "adds", "drops", "changes a day"],
)
def test_a_merge_supersedes_only_what_it_gives_another_value_of(
    dreamer: Dreamer, note: str, new: str, marked: set[str]
) -> None:
    (other,) = MONDAYS  # the note's words are the line's
    dreamer.dream(SLOW_NOTE, other, does=[add(SLOW, "20 s"), add(other, "Mondays")])
    merge = {"op": "merge", "lines": [SLOW, other], "text": new, "cites": [note]}
    dreamer.dream(note, does=[merge])
    assert dreamer.line(new)
    assert dreamer.superseded() == marked


def test_a_note_that_says_more_than_its_line_holds_when_the_line_changes(dreamer: Dreamer) -> None:
    more = f"{SLOW_NOTE}, and its tariff sheet is kept by Marguerite in the blue folder"
    dreamer.dream(more, does=[add(SLOW, "20 s")])
    dreamer.dream(FAST_NOTE, does=[revise(SLOW, FAST, "15 s")])
    assert dreamer.superseded() == {SLOW}
    texts = [hit.crystal.text for hit in dreamer.find("How often does the price feed of Kestrel publish?")]
    assert texts.index(FAST) < texts.index(more)


def test_of_two_notes_of_one_second_the_one_that_came_later_stands_first(dreamer: Dreamer) -> None:
    at = utc_now() - timedelta(hours=1)
    for port in ("5433", "6000"):
        dreamer.store.notes.inbox.append(Note(f"The cache listens on port {port}.", at))
    assert "6000" in dreamer.find("On which port does the cache listen?")[0].crystal.text


@pytest.mark.parametrize("named", [True, False], ids=["a note that names it", "a model's revision"])
@pytest.mark.parametrize("accepts", [True, False])
def test_what_contradicts_a_pinned_line_is_one_question_to_its_owner(
    dreamer: Dreamer, *, accepts: bool, named: bool
) -> None:
    store = dreamer.store
    dreamer.dream(SLOW_NOTE, does=[add(SLOW, "20 s")])
    line = dreamer.line(SLOW)
    change(store, [wish(store, LineAction.PIN, SLOW)])
    if named:
        store.notes.inbox.append(Note(FAST, utc_now(), 0.8, replaces=line.id))
        without_model = replace(store, config=Config())
        dream_now(without_model, Reason.MANUAL, Mode.AUTO)
    else:
        dreamer.dream(FAST_NOTE, does=[revise(SLOW, FAST, "15 s")])
    assert list(standing(store)) == [SLOW]
    assert store.notes.count().notes == 0
    ((asked, _),) = open_proposals(store)
    settle(store, *(([asked.number], ()) if accepts else ((), [asked.number])))
    holds = dreamer.line(FAST if accepts else SLOW)
    assert holds.pinned
    dreamer.dream("Ada has a cat called Miez", does=[])
    assert list(standing(store)) == [holds.text]
