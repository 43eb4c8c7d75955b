"""Blocks that an older dreamd kept in agents' files go at the first start, and nothing typed in them is lost."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from daemon.workspace.adoption import init_workspace
from daemon.workspace.former_blocks import remove_blocks
from daemon.workspace.stores import Store
from state.document.fence import BEGIN, END
from state.errors import DreamdError
from state.stores.disk.workspace import Workspace
from tests.support.committing import OLD_NOTES, dreamt, lines, opened
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault

PORT, TEA, LEDGER = OLD_NOTES
TYPED, COCOA = "Ask @grace about <!-- it", TEA.replace("tea", "cocoa")
RULES = b"# Rules\r\n\r\nuse make"
KEY = "e5c1bf860e3684dfcff68c66feef90ea"
FAULTS = (Fault.ERROR, Fault.CRASH, Fault.TORN_CRASH)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(init_workspace(tmp_path / "agent")) as store:
        dreamt(store, *OLD_NOTES)
        yield store


def block(store: Store, path: Path, around: bytes | None = RULES, newline: str = "\r\n") -> bytes:
    """The file with a block as it was written before, and the list that names it; returns the file's bytes."""
    rows = [line for line in lines(store.workspace) if line.removeprefix("- ") in OLD_NOTES]
    ids = [digest(KEY, "Active Context", row.removeprefix("- "))[:16] for row in rows]
    code, lead = digest(KEY, *ids)[:8], "" if not around else 2 * newline
    comment = (
        f"<!-- Made by dreamd from MEMORY.md. Edit lines here or there: the next dream takes them over. {code} -->"
    )
    text = newline.join(
        (BEGIN, comment, "", "## Active Context", *(f"- {row.removeprefix('- ')}" for row in rows), END)
    )
    content = (around or b"") + f"{lead}{text}{newline}".encode()
    path.write_bytes(content)
    wish = {"path": path.name, "agent": "claude-code", "lead": lead, "created": around is None, "code": code}
    wishes = {
        "key": KEY,
        "files": [{**wish, "left_out": 0, "writing": ["", ""]}],
        "written": [{"code": code, "ids": ids}],
        "version": 1,
    }
    (store.workspace.state / "blocks.json").write_text(json.dumps(wishes))
    return content


def digest(*words: str) -> str:
    return sha256("\n".join(words).encode()).hexdigest()


def said(workspace: Workspace) -> list[str]:
    return [line.removeprefix("- ") for line in lines(workspace)]


def is_listed(store: Store) -> bool:
    return (store.workspace.state / "blocks.json").exists()


@pytest.mark.parametrize("around", [None, b"", RULES, b"\xef\xbb\xbfa", b"\xff\xfe not utf-8"])
def test_the_file_is_as_it_was_without_its_block(store: Store, around: bytes | None) -> None:
    path, before = store.workspace.root / "CLAUDE.md", store.workspace.document.read_bytes()
    block(store, path, around)
    remove_blocks(store)
    assert (path.read_bytes() if path.exists() else None) == around
    assert store.workspace.document.read_bytes() == before
    assert not is_listed(store)
    assert [notice for notice in store.notices if "block" in notice] == store.notices[-1:]
    remove_blocks(store)
    assert len([notice for notice in store.notices if "block" in notice]) == 1


def edited(store: Store, path: Path) -> None:
    """One line corrected, one removed, one typed."""
    text = block(store, path)
    for old, new in ((TEA, COCOA), (f"- {LEDGER}\r\n", ""), (f"- {PORT}\r\n", f"- {PORT}\r\n- {TYPED}\r\n")):
        assert text.count(old.encode()) == 1
        text = text.replace(old.encode(), new.encode())
    path.write_bytes(text)


def test_what_was_typed_in_it_is_an_edit_of_memory_one_last_time(store: Store) -> None:
    path = store.workspace.root / "CLAUDE.md"
    edited(store, path)
    remove_blocks(store)
    assert [said(store.workspace).count(one) for one in (COCOA, TYPED, PORT, TEA, LEDGER)] == [1, 1, 1, 0, 0]
    assert path.read_bytes() == RULES


@pytest.mark.parametrize("harm", ["of another memory", "rows '<!-- dreamd:end -->'", "git could not merge", "UTF-8"])
def test_a_block_that_is_not_clear_stays_and_is_named(store: Store, harm: str) -> None:
    path = store.workspace.root / "CLAUDE.md"
    content = block(store, path).replace(PORT.encode(), TYPED.encode())
    content = {
        "of another memory": content,
        "rows '<!-- dreamd:end -->'": content + END.encode() + b"\n",
        "git could not merge": content + b"<<<<<<< mine\n",
        "UTF-8": content.replace(TYPED.encode(), b"\xff"),
    }[harm]
    if harm == "of another memory":
        wishes = json.loads((store.workspace.state / "blocks.json").read_text())
        (store.workspace.state / "blocks.json").write_text(json.dumps({**wishes, "written": []}))
    path.write_bytes(content)
    before = store.workspace.document.read_bytes()
    remove_blocks(store)
    assert (path.read_bytes(), store.workspace.document.read_bytes()) == (content, before)
    assert harm in store.notices[-1]
    assert not is_listed(store)


@pytest.mark.full
def test_cut_off_anywhere_nothing_typed_is_lost_and_the_next_start_ends_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    path, original = store.workspace.root / "CLAUDE.md", store.workspace.document.read_bytes()

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        store.workspace.document.write_bytes(original)
        for left in store.workspace.root.glob(".*.displaced"):
            left.unlink()
        edited(store, path)
        usual, system = store.disk.system, FaultySystem(store.workspace.root, fail_at, fault)
        store.disk.system = system
        with suppress(DreamdError, PowerCut):
            remove_blocks(store)
        store.disk.system = usual
        for typed in (COCOA, TYPED):
            assert typed.encode() in path.read_bytes() + store.workspace.document.read_bytes()
        remove_blocks(store)
        assert path.read_bytes() == RULES
        assert [said(store.workspace).count(one) for one in (COCOA, TYPED, PORT, TEA, LEDGER)] == [1, 1, 1, 0, 0]
        assert not is_listed(store)
        return system

    every_fault(FAULTS, scenario)
