"""Files of instructions and memory become crystals once, by whose word they are, and stay as they are."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.access import LocalAccess
from daemon.api.operations.notes import ExistingFile, take_in
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.ingest.existing_memory import LONGEST_FILE, Kind
from daemon.ingest.memory_files import absorb_memory_file
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal
from state.errors import DocumentError, DreamdError, StorageError
from state.forgetting.known import Target
from state.stores.vectors.embedder import Unavailable
from state.trust import Trust
from tests.support.existing_memory import CLAUDE_MD, Home

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def opened(root: Path) -> Iterator[Store]:
    there = Embedding.given(Unavailable("not needed here"))
    with open_exclusive(init_workspace(root), Config(), "a test", embedding=there) as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    yield from opened(tmp_path / "here")


def written(store: Store, text: str | bytes, name: str = "CLAUDE.md") -> Path:
    path = store.workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def absorbed(store: Store, path: Path, trust: Trust = Trust.OWNER) -> int:
    return absorb_memory_file(store, path, trust, lambda _: True).crystals


def known(store: Store) -> dict[str, Crystal]:
    rows = store.crystals.connection.execute("SELECT id FROM crystals ORDER BY key").fetchall()
    return {crystal.text: crystal for crystal in store.crystals.get(row["id"] for row in rows)}


def test_each_part_is_a_crystal_with_its_heading_and_lines(store: Store) -> None:
    path = written(store, CLAUDE_MD)
    before = path.stat()
    taken = absorb_memory_file(store, path, Trust.OWNER, lambda _: True)
    assert (taken.crystals, taken.parts, taken.imports) == (3, 3, 2)
    crystals = known(store)
    heron = crystals["The staging database is called heron"]
    assert heron.source is not None
    assert (heron.source.file, heron.source.first_line) == ("CLAUDE.md", 3)
    assert heron.context.startswith("Shop")
    assert heron.trust is Trust.OWNER
    assert heron.importance >= 0.75
    assert not any("bees" in text or text.startswith("@") for text in crystals)
    after = path.stat()
    assert path.read_text() == CLAUDE_MD
    assert (before.st_mtime_ns, before.st_ino, before.st_mode) == (after.st_mtime_ns, after.st_ino, after.st_mode)


def test_the_second_time_only_what_is_new_is_taken_in(store: Store) -> None:
    path = written(store, "# A\n\none is first\n\ntwo is second\n")
    assert absorbed(store, path) == 2
    occurrences = "SELECT count(*) FROM occurrences"
    count = store.crystals.connection.execute(occurrences).fetchone()[0]
    os.utime(path, (0, 0))
    assert absorbed(store, path) == 0
    written(store, "# A\n\nzero was before\n\none is first\n\ntwo is another one now\n")
    assert absorbed(store, path) == 2
    assert store.crystals.connection.execute(occurrences).fetchone()[0] == count + 2
    assert absorbed(store, written(store, "one is first\n", "AGENTS.md")) == 0


def test_a_stranger_s_word_becomes_its_owners_when_he_says_so_and_never_the_other_way(store: Store) -> None:
    path = written(store, "The staging database is called heron\n")
    absorbed(store, path, Trust.WEB)
    assert {crystal.trust for crystal in known(store).values()} == {Trust.WEB}
    assert all(crystal.importance < 0.5 for crystal in known(store).values())
    assert absorbed(store, path, Trust.OWNER) == 0
    assert known(store)["The staging database is called heron"].trust is Trust.OWNER
    absorbed(store, path, Trust.WEB)
    assert known(store)["The staging database is called heron"].trust is Trust.OWNER


def test_secrets_are_redacted_and_what_is_forgotten_stays_so(store: Store) -> None:
    path = written(store, f"The deploy token is {SECRET}\n\nThe staging database is called heron\n")
    store.crystals.forgotten.block(Target.of("heron"), utc_now())
    for _ in range(2):
        absorbed(store, path)
    assert not any(SECRET in text or "heron" in text for text in known(store))
    assert any("[redacted" in text for text in known(store))


@pytest.mark.parametrize("content", [b"\xff\xfea\0", b"a\0b", b"caf\xe9 is closed\n", b"x" * (LONGEST_FILE + 1)])
def test_what_is_no_text_or_too_long_is_refused_by_name(store: Store, content: bytes) -> None:
    path = written(store, content)
    with pytest.raises((DocumentError, StorageError), match=r"CLAUDE\.md"):
        absorbed(store, path)
    assert known(store) == {}


def test_links_out_of_the_workspace_and_what_is_no_file_are_refused(store: Store) -> None:
    root = store.workspace.root
    (root.parent / "diary.md").write_text("nobody's business\n")
    (root / "CLAUDE.md").symlink_to("../diary.md")
    (root / "AGENTS.md").symlink_to(".git/config")
    written(store, "[remote] token is here", ".git/config")
    os.mkfifo(root / "GEMINI.md")
    (root / "folder.md").mkdir()
    for name in ("CLAUDE.md", "AGENTS.md", "GEMINI.md", "folder.md", "gone.md"):
        with pytest.raises(DreamdError, match=name):
            absorbed(store, root / name)
    (root / "NOTES.md").symlink_to("real.md")
    assert absorbed(store, written(store, "a real file\n", "real.md").with_name("NOTES.md")) == 1


class Cut(BaseException):
    """The process is gone."""


def test_an_end_at_any_file_costs_a_repetition_and_nothing_twice(tmp_path: Path) -> None:
    root = tmp_path / "here"
    home = Home(tmp_path)
    workspace = init_workspace(root)
    files = [ExistingFile(path=str(home.write("here/CLAUDE.md", CLAUDE_MD)), kind=Kind.INSTRUCTIONS)]
    files += [
        ExistingFile(path=str(home.write("m/MEMORY.md", "- one is first\n- two is second\n")), kind=Kind.MEMORY)
    ]
    files += [ExistingFile(path=str(home.claude_session("a", root, "I prefer tabs")), kind=Kind.SESSIONS)]
    there = Embedding.given(Unavailable("not needed here"))
    told = list[str]()

    def cut(step: Step) -> None:
        told.append(step.figures)
        if len(told) <= len(files):
            raise Cut

    def once() -> int:
        with LocalAccess(workspace, Config(), "a test", cut, there) as access:
            return take_in.run(access, files=tuple(files)).crystals

    for _ in files:
        with pytest.raises(Cut):
            once()
    assert once() == 0
    assert once() == 0
    for store in opened(root):
        assert len(known(store)) == 6
        assert store.crystals.connection.execute("SELECT count(*) FROM occurrences").fetchone()[0] == 6


# What markdown is made of, with a speaker, a fence and the marks of a block.
_PIECES = st.sampled_from(
    ("# A\n", "- x is y\n", "\n", "```\n", "---\n", "User: hi\n", "@a.md\n", "<!-- dreamd:begin -->\n", "東京\n")
)


@given(st.lists(_PIECES | st.text(max_size=40), max_size=30).map("".join))
def test_any_text_is_taken_in_whole_or_refused_and_once(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    for store in opened(tmp_path_factory.mktemp("any")):
        path = written(store, text.encode("utf-8", "replace"))
        content = path.read_bytes()
        try:
            absorbed(store, path, Trust.AGENT)
        except DocumentError:
            assert known(store) == {}
        else:
            assert absorbed(store, path, Trust.AGENT) == 0
        assert all(crystal.trust.rank <= Trust.AGENT.rank for crystal in known(store).values())
        assert path.read_bytes() == content
