"""What is saved of a dream under way is JSON of plain values; any other form is refused before a byte is decoded."""

import sqlite3
from contextlib import closing
from pathlib import Path

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.settings import Config
from daemon.dream.checkpoints import JsonValues, checkpoints, has_begun
from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from state.dream import Reason
from state.errors import StorageError
from state.scratch import Note

DREAM = "20260101T000000000000Z"
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(plain)
def test_plain_values_come_back(value: object) -> None:
    serialiser = JsonValues()
    assert serialiser.loads_typed(serialiser.dumps_typed(value)) == value


@pytest.mark.parametrize("value", [object(), Path("/"), {1, 2}, b"bytes"])
def test_what_is_not_plain_cannot_be_saved(value: object) -> None:
    with pytest.raises(TypeError):
        JsonValues().dumps_typed(value)


def test_an_exception_is_saved_as_its_text() -> None:
    saved = JsonValues().dumps_typed(ValueError("no"))
    assert JsonValues().loads_typed(saved) == "ValueError: no"


@pytest.mark.parametrize("form", ["msgpack", "pickle", "bytes", "null", "", "JSON"])
def test_any_other_form_is_refused(form: str) -> None:
    with pytest.raises(StorageError, match="never writes"):
        JsonValues().loads_typed((form, b"null"))


@pytest.mark.parametrize("code", range(8))
def test_a_checkpoint_that_names_a_function_does_not_call_it(tmp_path: Path, code: int) -> None:
    """Of LangGraph's own form, whose extension objects name a module, a function and its arguments."""
    workspace = init_workspace(tmp_path / "here")
    called = tmp_path / "called"
    with open_exclusive(workspace, Config(), "a test") as store:
        with checkpoints(store):
            pass
        store.ledger.begin(DREAM, "manual", utc_now())
        _plant(workspace.checkpoints / "dreams.db", _calling(code, f"touch {called}"))
        assert not has_begun(store, DREAM)
        store.notes.inbox.append(Note("Ada prefers tea", utc_now(), 0.8))
        assert dream_now(store, Reason.MANUAL, Mode.AUTO).dream.number == 1
    assert not called.exists()


@pytest.mark.parametrize("saved", [b"[]", b'{"channel_values": 5}', b'{"channel_values": {"messages": [1]}}', b"{"])
def test_whatever_is_saved_of_a_dream_the_next_one_has_every_note(tmp_path: Path, saved: bytes) -> None:
    workspace = init_workspace(tmp_path / "here")
    with open_exclusive(workspace, Config(), "a test") as store:
        store.notes.inbox.append(Note("Ada prefers tea", utc_now(), 0.8))
        store.ledger.begin(DREAM, "manual", utc_now())
        with checkpoints(store):
            pass
        _plant(workspace.checkpoints / "dreams.db", saved, "json")
        outcome = dream_now(store, Reason.MANUAL, Mode.AUTO)
        assert outcome.dream.number == 1
        assert tuple(store.notes.each_pending()) == ()


def _calling(code: int, command: str) -> bytes:
    inner = ormsgpack.packb(("os", "system", command if code in (0, 3) else [command], command))
    return ormsgpack.packb({"v": 4, "channel_values": {"snapshot": ormsgpack.Ext(code, inner)}})


def _plant(path: Path, checkpoint: bytes, form: str = "msgpack") -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint, metadata)"
            " VALUES (?, '', '1ef', ?, ?, '{}')",
            (DREAM, form, checkpoint),
        )
        connection.commit()
