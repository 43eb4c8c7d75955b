"""A line that its owner calls wrong: no later dream writes it again, and a search does not give it as current."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from daemon.api.operations.search import recall
from daemon.dream.proposals import open_proposals, settle
from daemon.dream.run import Mode, dream_now
from daemon.journal.correct import put_right
from daemon.journal.lines import change
from daemon.journal.mentions import subject_of
from daemon.workspace.stores import Store, utc_now
from graphs.correction import NOT_TRUE
from graphs.review import LineAction
from state.crystals.crystal import Crystal, Kind, Origin
from state.dream import Reason
from state.errors import RejectedError
from state.scratch import Note
from state.trust import Trust
from tests.support.committing import thinking
from tests.support.model_characters import inputs_of
from tests.support.scripted_model import Reply
from tests.support.working import standing, wish, working

WRONG, RIGHT = "Mirela lives in a flat on Harbour street", "Mirela lives in the yellow house on Kivi lane"
FORMER, LATTER = "The staging server listens on port 8080", "The staging server listens on port 9090"
CHESS = "Grace plays chess on Sundays"
Opened = Callable[[Path], Any]


@contextmanager
def repeating(root: Path) -> Iterator[Store]:
    """With a model that writes the wrong line whatever it is told, on whatever it is given."""

    def insistent(request: dict[str, Any], _number: int) -> Reply:
        inputs = inputs_of(request)
        otherwise = [f"{WRONG}!", f"{FORMER}!"] if any(CHESS in text for *_, text in inputs) else []
        operations = [
            {"op": "add", "section": "The Bond", "text": text, "cites": [name]}
            for name, *_ in inputs
            for text in (WRONG, FORMER, *otherwise)
        ]
        return Reply(json.dumps({"operations": operations, "consumed": [name for name, *_ in inputs]}))

    with thinking(root, insistent) as (model, store):
        yield store
        assert model.count


_LATER = count(1)


def dreamt(store: Store, *notes: str) -> None:
    for note in notes:
        # What is said again is said at another second.
        store.notes.inbox.append(Note(note, utc_now() + timedelta(seconds=next(_LATER)), 0.8))
    with suppress(RejectedError):  # an answer that only says again what its owner took back is refused as a whole
        dream_now(store, Reason.MANUAL, Mode.AUTO)


def changed(store: Store, action: str, old: str, text: str = "") -> None:
    if action == "wrong":
        put_right(store, subject_of(store, standing(store)[old].id), text, ())
    else:
        change(store, [wish(store, LineAction(action), old, text)])


def found(store: Store, query: str = "Where does Mirela live?") -> list[tuple[str, str]]:
    hits = recall(store, query, 8, everything=True).hits
    return [(hit.crystal.text, hit.superseded_by.text if hit.superseded_by else "") for hit in hits]


def said_again(store: Store, text: str) -> None:
    """What the line rested on is input again; a page says it too, and then a note in the very words."""
    old = [row["id"] for row in store.connection.execute("SELECT id FROM crystals WHERE text = ?", (text,))]
    store.crystals.undream(old)
    store.crystals.learn([Crystal(f"{text}.", Origin.SESSION, utc_now(), Kind.FACT, 0.9, Trust.WEB)])
    dreamt(store, CHESS)
    dreamt(store, text)
    # A model of whose answer nothing is left has taken nothing in.
    assert store.config.model.name is not None or tuple(store.notes.each_pending()) == ()


@pytest.mark.full
@pytest.mark.parametrize("opened", [working, repeating])
@pytest.mark.parametrize(
    ("action", "old", "text"),
    [
        ("wrong", WRONG, ""),
        ("wrong", WRONG, RIGHT),
        ("delete", WRONG, ""),
        ("edit", FORMER, LATTER),
    ],
    ids=["wrong", "put right", "deleted", "edited"],
)
def test_no_dream_writes_it_again(tmp_path: Path, opened: Opened, action: str, old: str, text: str) -> None:
    with opened(tmp_path / "agent") as store:
        dreamt(store, WRONG, FORMER)
        changed(store, action, old, text)
        said_again(store, old)
        stand = standing(store)
        assert not [line for line in stand if line.startswith(old)]
        assert not text or (stand[text].author, stand[text].trust) == ("owner", Trust.OWNER)
        done = settle(store, [one.number for one, _ in open_proposals(store)], ())
        assert {one.refusal.guard for one in done.refused} <= {"human veto"}
        assert not [line for line in standing(store) if line.startswith(old)]


def test_a_text_that_says_more_than_the_line_holds_on(store: Store) -> None:
    tail = "She has worked at the observatory on the northern hill since spring, where she counts meteors with Ana"
    said = f"{WRONG}. {', '.join([tail, *[tail.lower()] * 6])}."
    dreamt(store, said, FORMER)
    (line,) = [one for one in standing(store).values() if one.text.startswith(WRONG)]
    assert line.text == f"{WRONG}."
    changed(store, "wrong", line.text)
    assert dict(found(store))[line.text] == f"{NOT_TRUE}{line.text}"
    assert dict(found(store, "Who counts meteors at the observatory?"))[said.removeprefix(line.text).strip()] == ""
