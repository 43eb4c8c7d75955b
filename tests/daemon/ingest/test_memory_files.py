"""What agents wrote down before dreamd is found where they keep it, and becomes crystals once."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.access import LocalAccess
from daemon.api.operations.notes import ExistingFile, ingest
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.ingest.existing_memory import (
    LONGEST_FILE,
    ExistingMemory,
    Kind,
    applies,
    existing_memory,
    folder_of_summary,
    sessions_of_removed,
    slug,
)
from daemon.ingest.memory_files import absorb_memory_file, memory_text
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal
from state.errors import DocumentError, DreamdError, StorageError
from state.forgetting.known import Target
from state.stores.disk.workspace import Workspace
from state.stores.vectors.embedder import Unavailable
from state.trust import Trust
from tests.support.existing_memory import CLAUDE_MD, HANDBOOK, SUMMARY, Home
from tests.support.faults import PowerCut
from tests.support.repository import git
from tests.support.working import working

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

HERON = "The staging database is called heron"


def written(store: Store, text: str | bytes, name: str = "CLAUDE.md") -> Path:
    path = store.workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def absorbed(store: Store, path: Path, trust: Trust = Trust.OWNER) -> int:
    return absorb_memory_file(store, path, trust, lambda _: True).crystals


def known(store: Store) -> dict[str, Crystal]:
    rows = store.connection.execute("SELECT id FROM crystals ORDER BY key").fetchall()
    return {crystal.text: crystal for crystal in store.crystals.get(row["id"] for row in rows)}


def occurrences(store: Store) -> int:
    return int(store.connection.execute("SELECT count(*) FROM occurrences").fetchone()[0])


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
        b"\xff\xfea\0",
        b"a\0b",
        b"caf\xe9 is closed\n",
        b"x" * (LONGEST_FILE + 1),
    ],
)
def test_what_is_no_text_or_too_long_is_refused_by_name(store: Store, content: str | bytes) -> None:
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
            raise PowerCut

    def once() -> int:
        with LocalAccess(workspace, Config(), "a test", cut, there) as access:
            return ingest.run(access, files=files).crystals

    for _ in files:
        with pytest.raises(PowerCut):
            once()
    assert (once(), once()) == (0, 0)
    with working(root) as store:
        assert (len(known(store)), occurrences(store)) == (6, 6)


@pytest.mark.parametrize(
    ("kind", "own", "trust"),
    [(Kind.INSTRUCTIONS, True, Trust.OWNER), (Kind.INSTRUCTIONS, False, Trust.WEB), (Kind.MEMORY, True, Trust.AGENT)],
)
def test_instructions_are_the_owner_s_word_only_when_it_is_said(
    tmp_path: Path, *, kind: Kind, own: bool, trust: Trust
) -> None:
    workspace = init_workspace(tmp_path / "here")
    file = Home(tmp_path).write("here/CLAUDE.md", "- The linter is called ruff here\n")
    there = Embedding.given(Unavailable("not needed here"))
    with LocalAccess(workspace, Config(), "a test", embedding=there) as access:
        ingest.run(access, files=(ExistingFile(path=str(file), kind=kind, own=own),))
    with working(workspace.root) as store:
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
        ("---\nname: x\ntype: y\n---\nword\n", [(5, "word")]),
        ("---\nno end of it\n", [(1, "---"), (2, "no end of it")]),
        (SUMMARY.format(here="/here"), [(6, "The migration of the orders table took two hours")]),
        (
            "@docs/a.md\n- @~/b.md\nSee @c.md, not ada@example.org\n```\n@d.md\n```\n`@e.md`\n@everyone listen\n",
            [*[(3, "See @c.md, not ada@example.org"), (4, "```"), (5, "@d.md"), (6, "```"), (7, "`@e.md`")],
             (8, "@everyone listen")],
        ),
    ],
    ids=["front matter", "no end", "a head of Codex", "imports"],
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


# What markdown is made of, with a speaker, a fence and a comment.
_PIECES = st.sampled_from(
    ("# A\n", "- x is y\n", "\n", "```\n", "---\n", "User: hi\n", "@a.md\n", "<!-- a remark -->\n", "東京\n")
)

_TEXTS = st.lists(_PIECES | st.text(st.characters(codec="utf-8"), max_size=40), max_size=30)


@given(_TEXTS.map(lambda pieces: "".join(pieces).encode()) | st.binary(max_size=300))
def test_any_bytes_are_taken_in_whole_or_refused_and_once_and_no_line_is_moved(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    with working(tmp_path_factory.mktemp("any")) as store:
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


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.project.mkdir()
    return made


def workspace(home: Home) -> Workspace:
    return init_workspace(home.project, home.environment)


def found(home: Home, **environment: str) -> tuple[ExistingMemory, ...]:
    return existing_memory(workspace(home), home.environment | environment)


def names(home: Home, **environment: str) -> list[tuple[str, list[str]]]:
    """Kinds, and files below the home."""
    every = found(home, **environment)
    return [(one.kind.value, [str(path.relative_to(home.path)) for path in one.files]) for one in every]


def test_each_kind_is_found_and_what_is_another_projects_is_not(home: Home) -> None:
    home.worked_in()
    claude = str(home.claude_memory().parent.relative_to(home.path))
    assert names(home) == [
        ("instructions", ["my_shop/CLAUDE.md"]),
        ("instructions", ["my_shop/AGENTS.md"]),
        ("instructions", ["my_shop/GEMINI.md"]),
        ("memory", [f"{claude}/memory/MEMORY.md", f"{claude}/memory/testing.md"]),
        ("memory", [".codex/memories/MEMORY.md", ".codex/memories/rollout_summaries/a.md"]),
        ("sessions", [f"{claude}/one.jsonl"]),
        ("sessions", [f"{claude}-web/two.jsonl"]),
        ("sessions", [".codex/sessions/2026/11/02/rollout-2026-11-02T10-00-00-c11-02.jsonl"]),
    ]
    assert not any(one.own for one in found(home))
    assert found(home)[0].size_bytes == (home.project / "CLAUDE.md").stat().st_size


def test_agents_are_followed_to_where_their_variables_say(home: Home) -> None:
    home.worked_in()
    (home.path / ".claude").rename(home.path / "c")
    (home.path / ".codex").rename(home.path / "x")
    moved = names(home, CLAUDE_CONFIG_DIR=str(home.path / "c"), CODEX_HOME=str(home.path / "x"))
    assert [kind for kind, _ in moved] == ["instructions"] * 3 + ["memory"] * 2 + ["sessions"] * 3
    assert [kind for kind, _ in names(home)] == ["instructions"] * 3


def test_the_user_alone_says_where_claude_keeps_its_memory(home: Home) -> None:
    home.write("notes/MEMORY.md", "- The broker is called otter\n")
    home.write("secrets/keys.md", "- nobody's business\n")
    home.write("my_shop/.claude/settings.json", json.dumps({"autoMemoryDirectory": str(home.path / "secrets")}))
    home.write("my_shop/.claude/settings.local.json", json.dumps({"autoMemoryDirectory": "~/secrets"}))
    assert names(home) == []
    home.write(".claude/settings.json", json.dumps({"autoMemoryDirectory": "~/notes"}))
    assert names(home) == [("memory", ["notes/MEMORY.md"])]


def test_a_link_from_one_file_of_instructions_to_another_is_that_one(home: Home) -> None:
    home.write("my_shop/AGENTS.md", "The linter is called ruff here\n")
    (home.project / "CLAUDE.md").symlink_to("AGENTS.md")
    assert names(home) == [("instructions", ["my_shop/CLAUDE.md"])]
    assert {"claude-code", "codex"} <= set(found(home)[0].agents)


def test_worktrees_share_what_was_said_in_each(home: Home) -> None:
    git(home.project, "init", "-q")
    git(home.project, "commit", "-q", "--allow-empty", "-m", "first")
    git(home.project, "worktree", "add", "-q", str(home.path / "fix"))
    home.claude_session("main", home.project, "a")
    home.claude_session("fix", home.path / "fix" / "web", "b")
    home.codex_session("11-02", home.path / "fix", "c")
    sessions = [one for one in found(home) if one.kind is Kind.SESSIONS]
    assert sum(len(one.files) for one in sessions) == 3
    # A folder of it with a workspace has only the memory of the repository, which is one.
    home.write(str(home.claude_memory() / "MEMORY.md"), "- x\n")
    web = home.project / "web"
    web.mkdir()
    inner = existing_memory(init_workspace(web, home.environment, here=True), home.environment)
    assert [(one.kind, one.files[0].name) for one in inner] == [(Kind.MEMORY, "MEMORY.md")]


def test_sessions_of_removed_worktrees_are_named_and_not_taken_for_the_projects(home: Home) -> None:
    git(home.project, "init", "-q")
    git(home.project, "commit", "-q", "--allow-empty", "-m", "first")
    (home.path / "my_shop-of-another").mkdir()
    for name in ("fix", "my_shop-fix", "my_shop-of-another", "elsewhere"):
        home.claude_session(name, home.path / name, name)
    home.codex_session("11-02", home.path / "fix", "c")
    git(home.project, "worktree", "add", "-q", str(home.path / "fix"))
    shutil.rmtree(home.path / "fix")  # git still lists it
    removed = sessions_of_removed(workspace(home), home.environment)
    assert [path.name for one in removed for path in one.files][:2] == ["fix.jsonl", "my_shop-fix.jsonl"]
    assert [one.agents for one in removed] == [("claude-code",), ("claude-code",), ("codex",)]
    assert found(home) == ()


def test_the_global_workspace_has_what_this_user_wrote_for_all_projects(home: Home) -> None:
    home.worked_in()
    home.write(".claude/CLAUDE.md", "I prefer tea\n")
    home.write(".codex/AGENTS.md", "I prefer tea\n")
    home.write(".gemini/GEMINI.md", "I prefer tea\n")
    home.write(".codex/memories/memory_summary.md", "v1\n\nthe user is a data scientist\n")
    root = home.path / "data/dreamd/global"
    root.mkdir(parents=True)
    everywhere = existing_memory(init_workspace(root, home.environment), home.environment)
    assert [(one.path.name, one.kind, one.own) for one in everywhere] == [
        ("CLAUDE.md", Kind.INSTRUCTIONS, True),
        ("AGENTS.md", Kind.INSTRUCTIONS, True),
        ("GEMINI.md", Kind.INSTRUCTIONS, True),
        ("memories", Kind.MEMORY, False),
    ]


def test_what_is_no_readable_file_is_not_there(home: Home) -> None:
    os.mkfifo(home.project / "CLAUDE.md")
    (home.project / "AGENTS.md").symlink_to("AGENTS.md")
    (home.project / "GEMINI.md").mkdir()
    folder = home.claude_memory()
    folder.mkdir(parents=True)
    os.mkfifo(folder / "MEMORY.md")
    os.mkfifo(folder.parent / "one.jsonl")
    home.write(str(folder.parent / "two.jsonl"), "no json\n" * 3 + '{"cwd": 7}\n')
    home.write(str(folder.parent / "three.jsonl"), '{"cwd": "\\u0000"}\n{"payload": {"cwd": "relative"}}')
    home.write(".codex/memories/MEMORY.md", "applies_to: nothing\n")
    home.write(".codex/sessions/2026", "a file")
    assert found(home) == ()


def test_a_name_that_claude_code_cuts_is_found_where_one_fits(home: Home) -> None:
    deep = home.path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    cut = home.path / ".claude/projects" / f"{slug(deep)[:200]}-1a2b3c"
    home.write(str(cut / "memory/MEMORY.md"), "- x\n")
    made = init_workspace(deep, home.environment)
    assert [one.path for one in existing_memory(made, home.environment)] == [cut / "memory"]
    home.write(str(cut.with_name(f"{slug(deep)[:200]}-9z") / "memory/MEMORY.md"), "- y\n")
    assert existing_memory(made, home.environment) == ()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0/")))
def test_a_slug_has_a_hyphen_for_each_unit_that_is_no_letter_or_digit(name: str) -> None:
    made = slug(Path("/") / "a" / f"x{name}") if name else "-a-x"
    assert len(made) == len(f"/a/x{name}".encode("utf-16-le")) // 2
    assert all(sign == "-" or (sign.isascii() and sign.isalnum()) for sign in made)
