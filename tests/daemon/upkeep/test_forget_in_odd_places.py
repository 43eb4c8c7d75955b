"""Forgetting: what a model or an agent put where nobody would look for a text, and copies that were put aside."""

import json
import shutil
from pathlib import Path

import pytest

from daemon.dream.run import Mode, dream_now
from daemon.upkeep.forget import Receipt, forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.upkeep.forget_proof import searched
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, utc_now
from graphs.ports import Answer
from prompts.replies import read_reply
from state.codec import decode, encode
from state.document.document import SectionName
from state.document.operations import Action, Operation, Refusal
from state.dream import Reason
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.stores.database.table import packed, unpacked
from state.stores.disk.workspace import Workspace
from state.stores.erasing.plan import Erasure
from state.stores.history.ledger import Call
from tests.support.forgettable import bytes_with, note, quick

SECRET = "blue heron nests behind mill 7731"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "w")


def forgotten(store: Store, text: str = SECRET) -> Receipt:
    return forget(store, ForgetRequest(text, Cut.SENTENCES), utc_now())


_CARELESS = json.dumps(
    {
        "operations": [
            {"op": "add", "section": "The Bond", "text": "Ada likes tea in Oslo", "cites": ["N1", "N2"]},
            {"op": "add", "section": "The Niche", "text": "A heron", "cites": [f"N9: {SECRET}"], "reason": SECRET},
            {"op": "revise", "section": "Nothing", "text": "Herons", "lines": [SECRET], SECRET: "yes", "id": SECRET},
        ],
        "consumed": ["N1", "N2", SECRET],
    }
)


def test_where_a_model_puts_it_it_is_found(workspace: Workspace) -> None:
    read = read_reply(_CARELESS, {})
    assert [one.cites for one in read.operations] == [("N1", "N2"), ("?",)]
    assert read.operations[1].lines == ()
    reply = encode(Answer(_CARELESS, "scripted-1", 1, 1, 0.0, "stop", 1.0, estimated=True))
    with quick(workspace) as store:
        note(store, "Ada likes tea in Oslo")
        dream = dream_now(store, Reason.MANUAL, Mode.AUTO).dream
        store.ledger.record_call(
            dream.id, Call("digest", "scripted-1", reply, usable=False, tokens=1, usd=0.0), utc_now()
        )
        assert any(place.startswith(".dreamd/state.db") for place in bytes_with(workspace, SECRET))
        assert forgotten(store).clean
        assert bytes_with(workspace, SECRET) == []
        (row,) = store.crystals.connection.execute("SELECT reply FROM calls").fetchall()
        left = json.loads(decode(Answer, row["reply"]).text)
    assert left["consumed"] == ["N1", "N2"]
    assert [one["op"] for one in left["operations"]] == ["add", "add", "revise"]
    assert left["operations"][0]["cites"] == ["N1", "N2"]


def test_what_the_history_cites_and_the_proof_finds_it_by_itself(workspace: Workspace) -> None:
    with quick(workspace) as store:
        note(store, "Ada likes tea in Oslo")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        odd = Operation(Action.ADD, SectionName.BOND, "Ada", (f"L1 {SECRET}",), ("N1", f"N1: {SECRET}"))
        connection = store.crystals.connection
        record = json.loads(
            unpacked(connection.execute("SELECT record FROM versions WHERE number = 1").fetchone()[0])
        )
        refusal = json.loads(encode(Refusal("citation", "operation", "cites nothing", odd)))
        changed = json.dumps({**record, "refused": [refusal]})
        connection.execute("UPDATE versions SET record = ? WHERE number = 1", (packed(changed),))
        erasure = Erasure((Target.of(SECRET),), Cut.SENTENCES)
        assert [one.place for one in searched(store, erasure, ()).left] == ["state.db: versions"]
        assert forgotten(store).clean
        assert bytes_with(workspace, SECRET) == []
        (left,) = store.memory.version(1).refused
        assert left.operation is not None
        assert (left.operation.cites, left.operation.lines, left.operation.action) == (("N1",), (), Action.ADD)


@pytest.mark.parametrize("header", [True, False])
def test_a_database_that_was_put_aside_is_deleted_whatever_its_first_bytes(
    workspace: Workspace, *, header: bool
) -> None:
    with quick(workspace) as store:
        note(store, "Ada likes tea in Oslo", SECRET)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    aside = workspace.state / "broken" / "20260101T000000Z" / "state.db"
    aside.parent.mkdir(parents=True)
    shutil.copy(workspace.database, aside)
    if not header:
        aside.write_bytes(b"\0" * 100 + aside.read_bytes()[100:])
    with quick(workspace) as store:
        assert forgotten(store).clean
    assert not aside.exists()
    assert bytes_with(workspace, SECRET) == []


def test_what_was_being_written_when_a_process_ended_is_deleted_under_any_name(workspace: Workspace) -> None:
    left = [
        workspace.root / ".MEMORY.md.dreamd-tmp-zz",
        workspace.scratch.with_name(".scratch.md.dreamd-tmp-1"),
        workspace.state / ".forgotten.json.7.dreamd-tmp",
        workspace.state / ".export-1-abc.db.dreamd-tmp",
    ]
    with quick(workspace) as store:
        note(store, SECRET)
        for path in left:
            path.write_text(f"- {SECRET}\n", encoding="utf-8")
        assert forgotten(store).clean
    assert [path for path in left if path.exists()] == []
    assert bytes_with(workspace, SECRET) == []


@pytest.mark.full
def test_what_is_remembered_in_another_spelling_goes_too(workspace: Workspace) -> None:
    forms = (SECRET.title().replace(" ", ""), " ".join(SECRET.replace(" ", "")), SECRET.replace(" ", " very ", 1))
    with quick(workspace) as store:
        note(store, "Ada likes tea in Oslo", *(f"See {form} now" for form in forms))
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        receipt = forgotten(store)
        assert receipt.clean
        assert "camel case" in receipt.recognised
        assert [place for form in forms for place in bytes_with(workspace, form)] == []
        note(store, *(f"Again {form}" for form in forms), "Bo likes coffee")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        assert [place for form in forms for place in bytes_with(workspace, form)] == []
        texts = {row[0] for row in store.crystals.connection.execute("SELECT text FROM crystals")}
    assert {"Ada likes tea in Oslo", "Bo likes coffee"} <= texts
