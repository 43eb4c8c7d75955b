"""Blocks of MEMORY.md in files of agents: written at commit, edited by a person, brought back by git."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.dream.restore import restore
from daemon.workspace.adoption import init_workspace
from daemon.workspace.block_wishes import BlockStatus, block_statuses, wishes_path
from daemon.workspace.blocks import finish_blocks, unwish, wish, write_blocks
from daemon.workspace.status import status
from daemon.workspace.stores import Store, utc_now
from state.document.fence import BEGIN, END, fenced
from state.errors import ConflictError, DocumentError, NotFoundError, StorageError, UsageError
from tests.support.committing import FURTHER, OLD_NOTES, added, dreamt, lines, opened, write
from tests.support.faults import Unsynced

PORT, TEA, LEDGER = OLD_NOTES
TYPED = "Call the dentist on Friday"
COCOA = TEA.replace("tea", "cocoa")
RULES = b"# Rules\n\nuse make"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    workspace = init_workspace(tmp_path / "agent")
    with opened(workspace) as store:
        yield store


@pytest.fixture
def file(store: Store) -> Path:
    """CLAUDE.md with a block of three lines below the owner's rules."""
    path = store.workspace.root / "CLAUDE.md"
    path.write_bytes(RULES)
    wish(store, path, "claude-code")
    dreamt(store, *OLD_NOTES)
    return path


def shown(path: Path) -> str:
    found = fenced(path.read_bytes())
    assert found is not None
    return found.inside


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def problem_of(store: Store) -> str:
    (one,) = block_statuses(store.workspace)
    return one.problem


def test_each_version_is_written_and_nothing_else_changes(store: Store, file: Path) -> None:
    assert all(f"- {note}\n" in shown(file) for note in OLD_NOTES)
    assert file.read_bytes().startswith(RULES + b"\n\n" + BEGIN.encode())
    dreamt(store, FURTHER)
    assert f"- {FURTHER}\n" in shown(file)
    restore(store, 1)
    assert FURTHER not in shown(file)
    assert fenced(file.read_bytes()).outside == RULES + b"\n\n\n"  # type: ignore[union-attr]
    assert not [notice for notice in store.notices if "block" in notice]


@pytest.mark.parametrize("content", [None, b"", b"\xef\xbb\xbf", b"a", b"a\r\nb\r\n", b"\xff\xfe not utf-8\n\n"])
def test_what_is_taken_out_leaves_the_file_as_it_was(store: Store, content: bytes | None) -> None:
    path = store.workspace.root / "AGENTS.md"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o640)
    wish(store, path, "codex")
    wish(store, path, "codex")
    dreamt(store, *OLD_NOTES)
    written = path.read_bytes()
    assert written.startswith(content or b"")
    if content and b"\r\n" in content:
        assert written.count(b"\n") == written.count(b"\r\n")
    assert unwish(store, path) == ""
    assert (path.read_bytes() if path.exists() else None) == content
    assert content is None or stat.S_IMODE(path.stat().st_mode) == 0o640
    dreamt(store, FURTHER)
    assert (path.read_bytes() if path.exists() else None) == content
    with pytest.raises(NotFoundError):
        unwish(store, path)


@pytest.mark.parametrize("take_in", [lambda store: dreamt(store, FURTHER), write_blocks], ids=["dream", "alone"])
def test_what_a_person_edits_in_it_is_the_owners_hand_once(
    store: Store, file: Path, take_in: Callable[[Store], object]
) -> None:
    edit(file, TEA, COCOA)
    edit(file, f"- {LEDGER}\n", "")
    edit(file, f"- {PORT}\n", f"- {PORT}\n- {TYPED}\n")
    take_in(store)
    assert {TYPED, COCOA, PORT} <= set(lines(store.workspace))
    dreamt(store, "Grace keeps the spare key")
    standing = {line.text: line for line in store.lineage.current_lines()}
    assert standing.keys() >= {TYPED, COCOA, PORT}
    assert not standing.keys() & {TEA, LEDGER}
    assert lines(store.workspace).count(TYPED) == 1
    assert LEDGER in store.lineage.tombstones()
    # Changed again in MEMORY.md: nobody puts back what once stood in the block.
    write(store.workspace, lambda text: text.replace(TYPED, "Call the doctor on Friday"))
    dreamt(store, "The ferry leaves at seven")
    assert "Call the doctor on Friday" in lines(store.workspace)
    assert TYPED not in lines(store.workspace)
    assert TYPED not in shown(file)


def test_an_older_block_that_git_brought_back_is_no_edit(store: Store, file: Path) -> None:
    older = file.read_bytes()
    dreamt(store, FURTHER)
    write(store.workspace, lambda text: text.replace(TEA, COCOA))
    dreamt(store, "Grace keeps the spare key")
    now = set(lines(store.workspace))
    file.write_bytes(older)
    write_blocks(store)
    assert set(lines(store.workspace)) == now
    assert f"- {COCOA}\n" in shown(file)
    # Edited besides: that alone is taken in.
    file.write_bytes(older.replace(LEDGER.encode(), b"We decided to use Postgres"))
    write_blocks(store)
    assert set(lines(store.workspace)) == (now - {LEDGER}) | {"We decided to use Postgres"}


def test_a_line_that_is_put_back_as_it_was_before_is_an_edit(store: Store, file: Path) -> None:
    write(store.workspace, lambda text: text.replace(TEA, COCOA))
    dreamt(store, FURTHER)
    edit(file, COCOA, TEA)
    write_blocks(store)
    assert TEA in lines(store.workspace)
    assert COCOA not in lines(store.workspace)


def test_a_line_without_room_was_not_removed(store: Store, file: Path) -> None:
    edit(file, "use make", "use make\n" + "\n".join(["x"] * 188))
    dreamt(store, FURTHER)
    (found,) = block_statuses(store.workspace)
    assert (197 < found.lines <= 200, found.left_out > 0, found.problem) == (True, True, "")
    assert set(lines(store.workspace)) == {*OLD_NOTES, FURTHER}
    value = status(store.workspace, Config(), utc_now())
    assert value.blocks == (found,)
    assert [str(one) for one in value.problems if "CLAUDE.md has 100% of what claude-code takes" in one.what]
    edit(file, "\n" + "\n".join(["x"] * 188), "")
    write_blocks(store)
    assert shown(file).count("\n- ") == 4


def test_a_block_that_was_taken_out_stays_out(store: Store, file: Path) -> None:
    file.write_bytes(RULES)
    dreamt(store, FURTHER)
    assert file.read_bytes() == RULES
    assert problem_of(store) == "the block was taken out of it"
    file.unlink()
    dreamt(store, "Grace keeps the spare key")
    assert not file.exists()
    wish(store, file, "claude-code")
    assert f"- {FURTHER}\n" in shown(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(END, ""),
        lambda text: text + text,
        lambda text: text.replace(BEGIN, f"{BEGIN}\n<<<<<<< HEAD\n=======\n>>>>>>> main"),
        lambda text: re.sub(r"over\. \w{8} ", "over. 00000000 ", text).replace(TEA, "Hers"),
    ],
    ids=["no end", "two blocks", "a conflict of git's", "unknown and edited"],
)
def test_a_file_that_is_not_clear_is_not_written(store: Store, file: Path, change: Callable[[str], str]) -> None:
    damaged = change(file.read_text(encoding="utf-8"))
    file.write_text(damaged, encoding="utf-8")
    dreamt(store, FURTHER)
    assert file.read_text(encoding="utf-8") == damaged
    assert problem_of(store)
    assert set(lines(store.workspace)) == {*OLD_NOTES, FURTHER}
    assert any("'dreamd status' says what to do" in one for one in store.notices)
    assert "keeps its block" in unwish(store, file)
    assert file.read_text(encoding="utf-8") == damaged


def test_the_block_of_another_memory_is_left_alone(store: Store, file: Path, tmp_path: Path) -> None:
    theirs = file.read_bytes().replace(TEA.encode(), b"Bo prefers water")
    other = init_workspace(tmp_path / "other")
    path = other.root / "CLAUDE.md"
    path.write_bytes(theirs)
    with opened(other) as second:
        dreamt(second, FURTHER)
        with pytest.raises(ConflictError, match="another memory"):
            wish(second, path, "claude-code")
        assert block_statuses(other) == ()
        dreamt(second, "Grace keeps the spare key")
        assert path.read_bytes() == theirs
        assert "Bo prefers water" not in lines(other)


def test_links_inside_are_followed_and_others_refused(store: Store, tmp_path: Path) -> None:
    root = store.workspace.root
    (root / "AGENTS.md").write_bytes(RULES)
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    wish(store, root / "CLAUDE.md", "claude-code")
    assert (root / "CLAUDE.md").is_symlink()
    assert BEGIN in (root / "AGENTS.md").read_text(encoding="utf-8")
    with pytest.raises(ConflictError, match="same file"):
        wish(store, root / "AGENTS.md", "codex")
    (tmp_path / "secret.md").write_bytes(RULES)
    (root / "GEMINI.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(StorageError, match="outside"):
        wish(store, root / "GEMINI.md", "gemini")
    assert (tmp_path / "secret.md").read_bytes() == RULES
    os.mkfifo(root / "fifo.md")
    with pytest.raises(StorageError, match="no regular file"):
        wish(store, root / "fifo.md", "codex")


def test_another_folder_may_have_one_and_follows_too(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "worktree" / "AGENTS.md"
    with pytest.raises(StorageError, match="is no folder"):
        wish(store, path, "codex")
    path.parent.mkdir()
    wish(store, path, "codex")
    dreamt(store, *OLD_NOTES)
    assert [one.path for one in block_statuses(store.workspace)] == [str(path)]
    edit(path, TEA, COCOA)
    dreamt(store, FURTHER)
    assert COCOA in lines(store.workspace)


@pytest.mark.parametrize("name", ["MEMORY.md", "GENOME.md", "notes.txt", ".bashrc", "a\nb.md"])
def test_only_files_of_agents_have_one(store: Store, name: str) -> None:
    with pytest.raises(UsageError):
        wish(store, store.workspace.root / name, "codex")
    with pytest.raises(UsageError, match="name one of claude-code, codex"):
        wish(store, store.workspace.root / "CLAUDE.md", "hal")
    (store.workspace.root / "CLAUDE.md").write_bytes(b"a\0b")
    with pytest.raises(DocumentError, match="NUL"):
        wish(store, store.workspace.root / "CLAUDE.md", "codex")


def test_markers_alone_are_no_wish_nor_what_came_with_a_workspace(store: Store, file: Path, tmp_path: Path) -> None:
    cloned = init_workspace(tmp_path / "cloned")
    path = cloned.root / "CLAUDE.md"
    before = file.read_bytes().replace(TEA.encode(), b"Bo prefers water")
    path.write_bytes(before)
    with opened(cloned) as other:
        dreamt(other, FURTHER)
    assert path.read_bytes() == before
    assert block_statuses(cloned) == ()


@dataclass
class Interrupting(Unsynced):
    """Saves of the owner's, each in the instant before a file is swapped."""

    file: Path
    saves: list[Callable[[str], str]] = field(default_factory=list)

    def exchange(self, one: Path, other: Path, /) -> None:
        if other == self.file and self.saves:
            self.file.write_text(self.saves.pop(0)(self.file.read_text(encoding="utf-8")), encoding="utf-8")
        super().exchange(one, other)


def test_a_save_in_the_instant_of_writing_is_kept(store: Store, file: Path) -> None:
    saves = [
        lambda text: text.replace("use make", "use just"),
        lambda text: text.replace(TEA, COCOA),
        lambda text: text.replace(f"- {PORT}\n", f"- {PORT}\n- {TYPED}\n"),
    ]
    store.disk.system = Interrupting(file, saves)
    dreamt(store, FURTHER)
    assert saves == []
    assert file.read_bytes().startswith(b"# Rules\n\nuse just\n\n<!--")
    assert {COCOA, TYPED, FURTHER} <= set(lines(store.workspace))
    assert {f"- {one}\n" in shown(file) for one in (COCOA, TYPED, FURTHER)} == {True}
    assert list(file.parent.glob(".*.displaced")) == []


def test_saves_before_and_after_the_swap_are_both_kept(store: Store, file: Path) -> None:
    class Twice(Interrupting):
        """One more save, over what was written."""

        def exchange(self, one: Path, other: Path, /) -> None:
            super().exchange(one, other)
            if other == self.file and not self.saves:
                edit(self.file, LEDGER, "We decided to use Postgres")

    aside = file.with_name(".CLAUDE.md.displaced")
    store.disk.system = Twice(file, [lambda text: text.replace("use make", "use just")])
    dreamt(store, FURTHER)
    assert b"use just" in aside.read_bytes()
    assert b"Postgres" in file.read_bytes()
    assert "was saved while the block of CLAUDE.md was written" in problem_of(store)
    store.disk.system = Unsynced()
    write_blocks(store)
    assert b"use just" in aside.read_bytes()
    aside.unlink()
    write_blocks(store)
    assert (problem_of(store), "We decided to use Postgres" in lines(store.workspace)) == ("", True)


def test_a_save_of_memory_in_the_instant_of_taking_in_is_kept(store: Store, file: Path) -> None:
    edit(file, TEA, COCOA)
    document = store.workspace.document
    store.disk.system = Interrupting(document, [lambda text: added(text, TYPED)])
    write_blocks(store)
    assert {COCOA, TYPED, PORT, LEDGER} == set(lines(store.workspace))


def test_secrets_are_redacted_in_it(store: Store, file: Path) -> None:
    write(store.workspace, lambda text: added(text, "The key is AKIAIOSFODNN7EXAMPLQ for staging"))
    dreamt(store, FURTHER)
    assert "AKIAIOSFODNN7EXAMPLQ" not in file.read_text(encoding="utf-8")


def test_a_wish_that_cannot_be_read_costs_no_dream(store: Store, file: Path) -> None:
    wishes_path(store.workspace).write_bytes(b"{")
    before = file.read_bytes()
    dreamt(store, FURTHER)
    finish_blocks(store)
    assert FURTHER in lines(store.workspace)
    assert file.read_bytes() == before
    assert any("blocks.json" in str(one) for one in status(store.workspace, Config(), utc_now()).problems)


def test_a_wish_that_cannot_be_carried_out_is_none(store: Store) -> None:
    with pytest.raises(NotFoundError):
        wish(store, Path("/proc/self/CLAUDE.md"), "claude-code")
    with pytest.raises(StorageError):
        wish(store, store.workspace.root / f"{'a' * 300}.md", "codex")
    assert block_statuses(store.workspace) == ()


def test_the_status_is_read_again_when_the_file_changes(store: Store, file: Path) -> None:
    def now() -> BlockStatus:
        (found,) = status(store.workspace, Config(), utc_now()).blocks
        return found

    before = now()
    with file.open("ab") as more:
        more.write(b"one more row\n")
    assert now().lines == before.lines + 1
