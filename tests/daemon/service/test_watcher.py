"""The watcher with real files, by the kernel's events and by polling: whatever changes is told."""

import shutil
from collections import Counter
from pathlib import Path
from queue import Empty

import pytest

from daemon.service.watcher import Change, Watcher
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import HEAD, NoteInbox
from tests.support.listening import GLOBS, PATIENCE, Ear, News, append, append_here, made


def test_an_append_to_the_scratch_log_is_told_each_time(watcher: Watcher, ear: Ear, workspace: Workspace) -> None:
    watcher.watch(workspace.root, GLOBS)
    for _ in range(3):
        append(workspace.scratch)
        ear.wait_for(workspace.root, Change.SCRATCH)


def test_a_document_that_is_replaced_is_told_each_time(watcher: Watcher, ear: Ear, workspace: Workspace) -> None:
    watcher.watch(workspace.root, GLOBS)
    for text in ("one", "two"):
        draft = workspace.root / "draft"
        draft.write_text(text)
        draft.rename(workspace.document)
        ear.wait_for(workspace.root, Change.DOCUMENT)


def test_a_scratch_log_that_is_written_anew_is_told_and_so_is_the_next_note(
    watcher: Watcher, ear: Ear, workspace: Workspace
) -> None:
    watcher.watch(workspace.root, GLOBS)
    append(workspace.scratch, "- a note")
    ear.wait_for(workspace.root, Change.SCRATCH)
    NoteInbox(workspace).show_anew(HEAD, 0, 1)
    ear.wait_for(workspace.root, Change.SCRATCH)
    append(workspace.scratch, "- another note")
    ear.wait_for(workspace.root, Change.SCRATCH)


def test_a_transcript_in_a_folder_below_is_told(watcher: Watcher, ear: Ear, workspace: Workspace) -> None:
    day = workspace.root / "transcripts" / "2026" / "march"
    day.mkdir(parents=True)
    watcher.watch(workspace.root, GLOBS)
    append(day / "talk.jsonl", "{}")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)
    append(day / "talk.jsonl", "{}")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)
    (day / "talk.jsonl").unlink()
    ear.wait_for(workspace.root, Change.TRANSCRIPT)


@pytest.mark.full
def test_folders_that_are_made_later_are_picked_up(watcher: Watcher, ear: Ear, tmp_path: Path) -> None:
    root = tmp_path / "bare"
    root.mkdir()
    watcher.watch(root, ("chats/*/days/**/*.md",))
    day = root / "chats" / "ada" / "days" / "2026-03-01"
    day.mkdir(parents=True)
    append(day / "talk.md")
    ear.wait_for(root, Change.TRANSCRIPT)
    append(day / "talk.md")
    ear.wait_for(root, Change.TRANSCRIPT)
    (root / "memory").mkdir()
    append(root / "memory" / "scratch.md")
    ear.wait_for(root, Change.SCRATCH)
    append(root / "memory" / "scratch.md")
    ear.wait_for(root, Change.SCRATCH)


@pytest.mark.full
@pytest.mark.parametrize("force_polling", [False, True])
def test_a_root_that_goes_and_comes_back_is_watched_again(tmp_path: Path, ear: Ear, *, force_polling: bool) -> None:
    workspace = made(tmp_path / "here")
    watcher = Watcher(ear, polling_seconds=0.2, force_polling=force_polling)
    try:
        watcher.watch(workspace.root, GLOBS)
        shutil.rmtree(workspace.root)
        ear.wait_for(workspace.root, Change.DOCUMENT)
        made(workspace.root)
        ear.wait_for(workspace.root, Change.DOCUMENT)
        for path, change in (
            (workspace.scratch, Change.SCRATCH),
            (workspace.root / "transcripts" / "talk.md", Change.TRANSCRIPT),
        ):
            append(path)
            ear.wait_for(workspace.root, change)
            append(path)
            ear.wait_for(workspace.root, change)
    finally:
        watcher.close()


def test_a_workspace_that_is_not_there_yet_is_told_when_it_comes(tmp_path: Path, ear: Ear) -> None:
    watcher = Watcher(ear, polling_seconds=0.2)
    try:
        watcher.watch(tmp_path / "later", GLOBS)
        made(tmp_path / "later")
        ear.wait_for(tmp_path / "later", Change.DOCUMENT)
    finally:
        watcher.close()


def test_what_is_no_source_is_not_told(watcher: Watcher, ear: Ear, workspace: Workspace) -> None:
    watcher.watch(workspace.root, ("**/*.log",))
    append(workspace.state / "state.log")
    append(workspace.index / "deep.log")
    append(workspace.root / "notes.txt")
    append(workspace.root / "memory" / "other.md")
    append(workspace.scratch)
    ear.wait_for(workspace.root, Change.SCRATCH)
    append(workspace.scratch)  # by now a round is over
    ear.wait_for(workspace.root, Change.SCRATCH)
    assert set(ear.heard) == {(workspace.root, Change.SCRATCH)}


def test_a_glob_that_transcripts_cannot_have_watches_nothing(
    watcher: Watcher, ear: Ear, workspace: Workspace, tmp_path: Path
) -> None:
    watcher.watch(workspace.root, ("", "/etc/*", f"{tmp_path}/*.md", "../*.md", "a\0b", "transcripts/*.md"))
    append(tmp_path / "outside.md")
    append(workspace.root / "transcripts" / "talk.md")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)
    append(workspace.scratch)
    ear.wait_for(workspace.root, Change.SCRATCH)
    assert Counter(ear.heard)[workspace.root, Change.TRANSCRIPT] == 1


def test_a_link_that_a_glob_names_is_followed_inside_the_workspace_and_not_out_of_it(
    watcher: Watcher, ear: Ear, workspace: Workspace, tmp_path: Path
) -> None:
    outside, inside = tmp_path / "outside", workspace.root / "kept"
    for folder in (outside, inside):
        (folder / "below").mkdir(parents=True)
    (workspace.root / "chats").symlink_to(outside)
    (workspace.root / "talks").symlink_to(inside)
    watcher.watch(workspace.root, ("chats/**/*.md", "talks/**/*.md"))
    append(outside / "below" / "talk.md")
    with pytest.raises(Empty):
        ear.news.get(timeout=1.0)
    append(inside / "below" / "talk.md")
    assert ear.news.get(timeout=PATIENCE) == (workspace.root, Change.TRANSCRIPT)


def test_a_file_behind_a_link_is_watched_where_it_is(
    watcher: Watcher, ear: Ear, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "talk[1].md").write_text("")
    (workspace.root / "transcripts" / "talk.md").symlink_to(tmp_path / "away" / "talk[1].md")
    watcher.watch(workspace.root, GLOBS)
    append(tmp_path / "away" / "talk[1].md")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)


def test_a_link_to_everything_is_not_walked(watcher: Watcher, ear: Ear, workspace: Workspace) -> None:
    (workspace.root / "transcripts" / "everything").symlink_to("/")
    (workspace.root / "transcripts" / "round").symlink_to(workspace.root / "transcripts")
    watcher.watch(workspace.root, GLOBS)
    append(workspace.root / "transcripts" / "talk.md")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)


def test_many_changes_at_once_are_few_calls(watcher: Watcher, ear: Ear, workspace: Workspace) -> None:
    watcher.watch(workspace.root, GLOBS)
    for number in range(300):
        append_here(workspace.scratch, f"- {number}")
    ear.wait_for(workspace.root, Change.SCRATCH)
    append(workspace.document)
    ear.wait_for(workspace.root, Change.DOCUMENT)
    assert len(ear.heard) < 100


def test_fifty_workspaces_are_watched_at_once(watcher: Watcher, ear: Ear, tmp_path: Path) -> None:
    roots = [made(tmp_path / f"w{number}").root for number in range(50)]
    for root in roots:
        watcher.watch(root, GLOBS)
    expected = set()
    for number, root in enumerate(roots):
        name, change = (
            ("memory/scratch.md", Change.SCRATCH),
            ("MEMORY.md", Change.DOCUMENT),
            ("transcripts/talk.md", Change.TRANSCRIPT),
        )[number % 3]
        append_here(root / name, "x")
        expected.add((root, change))
    told: set[News] = set()
    while told != expected:
        told.add(ear.news.get(timeout=PATIENCE))


def test_a_workspace_that_is_forgotten_is_not_told(watcher: Watcher, ear: Ear, tmp_path: Path) -> None:
    gone, stays = made(tmp_path / "gone"), made(tmp_path / "stays")
    watcher.watch(gone.root, GLOBS)
    watcher.watch(stays.root, GLOBS)
    append(gone.scratch)
    ear.wait_for(gone.root, Change.SCRATCH)
    watcher.forget(gone.root)
    ear.heard.clear()
    append(gone.scratch)
    for _ in range(2):
        append(stays.scratch)
        ear.wait_for(stays.root, Change.SCRATCH)
    assert set(ear.heard) == {(stays.root, Change.SCRATCH)}


def test_watching_again_takes_the_new_globs_and_tells_what_they_find(
    watcher: Watcher, ear: Ear, workspace: Workspace
) -> None:
    (workspace.root / "chats").mkdir()
    append(workspace.root / "chats" / "talk.md")
    watcher.watch(workspace.root, GLOBS)
    watcher.watch(workspace.root, ("chats/*.md",))
    ear.wait_for(workspace.root, Change.TRANSCRIPT)
    append(workspace.root / "chats" / "talk.md")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)
