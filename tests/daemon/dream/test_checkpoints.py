"""What is saved of a dream under way calls nothing when it is read, and costs no note whatever it is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import ormsgpack
import pytest

from daemon.dream.checkpoints import checkpoints, saved
from daemon.workspace.stores import Store, utc_now
from tests.support.committing import dreamt
from tests.support.working import working

DREAM = "20260101T000000000000Z"


@pytest.mark.parametrize("code", range(8))
def test_a_checkpoint_that_names_a_function_does_not_call_it(tmp_path: Path, code: int) -> None:
    """Of LangGraph's own form, whose extension objects name a module, a function and its arguments."""
    called = tmp_path / "called"
    with working(tmp_path / "here") as store:
        with checkpoints(store) as saver:
            saver.setup()
        store.ledger.begin(DREAM, "manual", utc_now())
        _plant(store.workspace.checkpoints / "dreams.db", _calling(code, f"touch {called}"))
        assert saved(store, DREAM) is None
        assert dreamt(store, "Ada prefers tea").dream.number == 1
    assert not called.exists()


@pytest.mark.parametrize("kept", [b"[]", b'{"channel_values": 5}', b'{"channel_values": {"messages": [1]}}', b"{"])
def test_whatever_is_saved_of_a_dream_the_next_one_has_every_note(store: Store, kept: bytes) -> None:
    store.ledger.begin(DREAM, "manual", utc_now())
    with checkpoints(store) as saver:
        saver.setup()
    _plant(store.workspace.checkpoints / "dreams.db", kept, "json")
    assert dreamt(store, "Ada prefers tea").dream.number == 1
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
