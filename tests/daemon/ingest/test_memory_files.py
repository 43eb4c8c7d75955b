"""Files of instructions and memory become crystals once, by whose word they are, and stay as they are."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.access import LocalAccess
from daemon.api.operations.notes import ExistingFile, ingest
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.ingest.existing_memory import LONGEST_FILE, Kind, applies, folder_of_summary
from daemon.ingest.memory_files import absorb_memory_file, memory_text
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal
from state.document.fence import BEGIN, END
from state.errors import DocumentError, DreamdError, StorageError
from state.forgetting.known import Target
from state.stores.vectors.embedder import Unavailable
from state.trust import Trust
from tests.support.existing_memory import CLAUDE_MD, HANDBOOK, SUMMARY, Home

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
HERON = "The staging database is called heron"


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


def occurrences(store: Store) -> int:
    return int(store.crystals.connection.execute("SELECT count(*) FROM occurrences").fetchone()[0])


def test_each_part_is_a_crystal_with_its_heading_and_lines(store: Store) -> None:
    path = written(store, CLAUDE_MD)
    before = path.stat()
    taken = absorb_memory_file(store, path, Trust.OWNER, lambda _: True)
    assert (taken.crystals, taken.parts, taken.imports) == (3, 3, 2)
    crystals = known(store)
    heron = crystals[HERON]
    assert heron.source is not None
    assert (heron.source.file, heron.source.first_line, heron.trust) == ("CLAUDE.md", 3, Trust.OWNER)
    assert heron.context.startswith("Shop")
    assert heron.importance >= 0.75
    assert not any("bees" in text or text.startswith("@") for text in crystals)
    after = path.stat()
    assert path.read_text() == CLAUDE_MD
    assert (before.st_mtime_ns, before.st_ino, before.st_mode) == (after.st_mtime_ns, after.st_ino, after.st_mode)


def test_the_second_time_only_what_is_new_is_taken_in(store: Store) -> None:
    path = written(store, "# A\n\none is first\n\ntwo is second\n")
    assert absorbed(store, path) == 2
    count = occurrences(store)
    os.utime(path, (0, 0))
    assert absorbed(store, path) == 0
    written(store, "# A\n\nzero was before\n\none is first\n\ntwo is another one now\n")
    assert (absorbed(store, path), occurrences(store)) == (2, count + 2)
    assert absorbed(store, written(store, "one is first\n", "AGENTS.md")) == 0


def test_a_stranger_s_word_becomes_its_owners_when_he_says_so_and_never_the_other_way(store: Store) -> None:
    path = written(store, f"{HERON}\n")
    absorbed(store, path, Trust.WEB)
    assert known(store)[HERON].importance < 0.5
    for trust, holds in ((Trust.WEB, Trust.WEB), (Trust.OWNER, Trust.OWNER), (Trust.WEB, Trust.OWNER)):
        assert absorbed(store, path, trust) == 0
        assert known(store)[HERON].trust is holds


def test_secrets_are_redacted_and_what_is_forgotten_stays_so(store: Store) -> None:
    path = written(store, f"The deploy token is {SECRET}\n\n{HERON}\n")
    store.crystals.forgotten.block(Target.of("heron"), utc_now())
    for _ in range(2):
        absorbed(store, path)
    assert not any(SECRET in text or "heron" in text for text in known(store))
    assert any("[redacted" in text for text in known(store))


@pytest.mark.parametrize(
    "content",
    [
        *(b"\xff\xfea\0", b"a\0b", b"caf\xe9 is closed\n", b"x" * (LONGEST_FILE + 1)),
        *(f"a\n{BEGIN}\nb\n", f"a\n{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"),  # which block is meant?
    ],
)
def test_what_is_no_text_or_too_long_or_unclear_is_refused_by_name(store: Store, content: str | bytes) -> None:
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
    root, home = tmp_path / "here", Home(tmp_path)
    workspace = init_workspace(root)
    instructions, memory = home.write("here/CLAUDE.md", CLAUDE_MD), home.write("m/MEMORY.md", "- a is b\n- c is d\n")
    files = tuple(
        ExistingFile(path=str(path), kind=kind)
        for path, kind in (
            (instructions, Kind.INSTRUCTIONS),
            (memory, Kind.MEMORY),
            (home.claude_session("a", root, "I prefer tabs"), Kind.SESSIONS),
        )
    )
    there = Embedding.given(Unavailable("not needed here"))
    told = list[str]()

    def cut(step: Step) -> None:
        told.append(step.figures)
        if len(told) <= len(files):
            raise Cut

    def once() -> int:
        with LocalAccess(workspace, Config(), "a test", cut, there) as access:
            return ingest.run(access, files=files).crystals

    for _ in files:
        with pytest.raises(Cut):
            once()
    assert (once(), once()) == (0, 0)
    for store in opened(root):
        assert (len(known(store)), occurrences(store)) == (6, 6)


@pytest.mark.parametrize(
    ("kind", "own", "trust"),
    [
        (Kind.INSTRUCTIONS, True, Trust.OWNER),
        (Kind.INSTRUCTIONS, False, Trust.WEB),
        (Kind.MEMORY, True, Trust.AGENT),
    ],
)
def test_instructions_are_the_owner_s_word_only_when_it_is_said(
    tmp_path: Path, *, kind: Kind, own: bool, trust: Trust
) -> None:
    workspace = init_workspace(tmp_path / "here")
    file = Home(tmp_path).write("here/CLAUDE.md", "- The linter is called ruff here\n")
    there = Embedding.given(Unavailable("not needed here"))
    with LocalAccess(workspace, Config(), "a test", embedding=there) as access:
        ingest.run(access, files=(ExistingFile(path=str(file), kind=kind, own=own),))
    for store in opened(workspace.root):
        assert {one.trust for one in known(store).values()} == {trust}


# What of a file is somebody's word.


def here(folder: str) -> bool:
    return folder == "/here"


def left(text: str) -> list[tuple[int, str]]:
    """The lines that are left, with their numbers."""
    lines = memory_text(text.encode(), here)[0].decode().split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"one\n{BEGIN}\n- two\n- three\n{END}\nfour\n", [(1, "one"), (6, "four")]),
        ("---\nname: x\ntype: y\n---\nword\n", [(5, "word")]),
        ("---\nno end of it\n", [(1, "---"), (2, "no end of it")]),
        (SUMMARY.format(here="/here"), [(6, "The migration of the orders table took two hours")]),
        (
            "@docs/a.md\n- @~/b.md\nSee @c.md, not ada@example.org\n```\n@d.md\n```\n`@e.md`\n@everyone listen\n",
            [*[(3, "See @c.md, not ada@example.org"), (4, "```"), (5, "@d.md"), (6, "```"), (7, "`@e.md`")],
             (8, "@everyone listen")],
        ),
    ],
    ids=["our block", "front matter", "no end", "a head of Codex", "imports"],
)  # fmt: skip
def test_what_is_nobodys_word_is_empty_and_the_others_keep_their_numbers(
    text: str, lines: list[tuple[int, str]]
) -> None:
    assert left(text) == lines
    assert memory_text(text.encode(), here)[1] == (3 if "@" in text else 0)


def test_of_codexs_handbook_the_groups_of_this_project_count() -> None:
    handbooks = [HANDBOOK.format(here=folder).encode().split(b"\n") for folder in ("/here", "/there")]
    assert [applies(lines, here) for lines in handbooks] == [True, False]
    words = "\n".join(line for _, line in left(HANDBOOK.format(here="/here")))
    assert "release notes" in words
    assert not any(word in words for word in ("llamas", "applies_to"))
    for named in ("cwd=/there, /here", "cwd=`/here`", 'cwd="/here"; x', "cwd=/there and /here"):
        assert applies([f"applies_to: {named}".encode()], here), named
    heads = (SUMMARY.format(here="/a b").encode(), b"thread_id: 1\n\ncwd: /here\n", b"")
    assert [folder_of_summary(head) for head in heads] == ["/a b", "", ""]


# What markdown is made of, with a speaker, a fence and the marks of a block.
_PIECES = st.sampled_from(
    ("# A\n", "- x is y\n", "\n", "```\n", "---\n", "User: hi\n", "@a.md\n", "<!-- dreamd:begin -->\n", "東京\n")
)
_TEXTS = st.lists(_PIECES | st.text(st.characters(codec="utf-8"), max_size=40), max_size=30)


@given(_TEXTS.map(lambda pieces: "".join(pieces).encode()) | st.binary(max_size=300))
def test_any_bytes_are_taken_in_whole_or_refused_and_once_and_no_line_is_moved(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    for store in opened(tmp_path_factory.mktemp("any")):
        path = written(store, content)
        try:
            absorbed(store, path, Trust.AGENT)
        except DocumentError:
            assert known(store) == {}
        else:
            assert absorbed(store, path, Trust.AGENT) == 0
            before, after = content.split(b"\n"), memory_text(content, here)[0].split(b"\n")
            assert all(line in (b"", old) for old, line in zip(before, after, strict=True))
        assert all(crystal.trust.rank <= Trust.AGENT.rank for crystal in known(store).values())
        assert path.read_bytes() == content
