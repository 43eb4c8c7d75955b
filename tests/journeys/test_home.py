"""What happens to a project's folder, with the real git: its memory goes along with it, and with nothing else."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.developer import Developer, at_home, tree
from tests.support.forked import Forked
from tests.support.long_variants import spread
from tests.support.repository import git
from tests.support.serving import until

KNOWN = "Ada keeps bees in the orchard"
LATER = "The harbour gate opens at nine"
NPM = '{"name": "harbour", "version": "1.0.0"}\n'
HATCH = (
    '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    '[project]\nname = "harbour"\nversion = "1.0.0"\n[tool.hatch.build.targets.wheel]\ninclude = ["*"]\n'
)


@pytest.fixture
def ada() -> Iterator[Developer]:
    with at_home() as developer:
        yield developer


@pytest.fixture
def project(ada: Developer) -> Path:
    """A repository that has got its memory by a note."""
    return ada.remembering("code/harbour", KNOWN)


def copied(folder: Path, to: Path) -> Path:
    subprocess.run(["cp", "-a", folder, to], check=True)
    return to


def remade(folder: Path) -> Path:
    """Make another repository at this path."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def is_apart(ada: Developer, folder: Path, text: str = LATER) -> bool:
    """Return whether this folder is told nothing of what is known, and keeps what is noted there from others."""
    before = ada.holders(KNOWN)
    first = ada.start(folder)
    ada.note(folder, text)
    second, kept = ada.start(folder), ada.holders(text)
    assert (KNOWN in first, KNOWN in second, text in second) == (False, False, True)
    assert ada.holders(KNOWN) == before
    return kept == {ada.path(folder).parent.name} and not kept & before


@pytest.mark.parametrize("anew", ["nothing", "folder", "repository", "clone"])
def test_a_renamed_project_takes_its_memory_along(ada: Developer, project: Path, anew: str) -> None:
    memory = ada.path(project)
    renamed = project.rename(ada.home / "code/port")
    if anew == "folder":
        project.mkdir()
    elif anew == "repository":
        remade(project)
    elif anew == "clone":
        git(ada.home, "clone", "--quiet", renamed, project)
    if anew in ("repository", "clone"):  # the new one is looked at first
        assert is_apart(ada, project)
    if anew == "folder":
        assert ada.start(project) == ""
    assert ada.knows(renamed, KNOWN)
    assert not ada.knows(renamed, LATER)
    assert ada.path(renamed) == memory
    ada.note(renamed, "Of the new name")
    assert ada.knows(renamed, "Of the new name")
    assert ada.holders("Of the new name") == {memory.parent.name}
    assert tree(renamed) == {"code.py": b"print()\n"}


def test_a_project_in_a_renamed_folder_and_one_that_takes_its_name_are_not_mixed_up(
    ada: Developer, project: Path
) -> None:
    other = ada.remembering("work/harbour", LATER)
    (ada.home / "code").rename(ada.home / "away")
    (ada.home / "work").rename(ada.home / "code")
    assert not other.exists()
    for folder, own, others in (
        (project, LATER, KNOWN),
        (ada.home / "away/harbour", KNOWN, LATER),
    ):
        told = ada.start(folder)
        assert (own in told, others in told) == (True, False)
    assert len(ada.memories()) == 2


@pytest.mark.parametrize("first", ["copy", "original"])
def test_a_copy_has_a_memory_of_its_own(ada: Developer, project: Path, first: str) -> None:
    copy = copied(project, ada.home / "code/copy")
    if first == "original":
        assert ada.knows(project, KNOWN)
    assert is_apart(ada, copy)
    assert ada.knows(project, KNOWN)
    assert not ada.knows(project, LATER)
    again = copied(copy, ada.home / "code/again")
    assert (ada.start(again), len(ada.memories())) == ("", 2)
    shutil.rmtree(project)
    assert ada.knows(copy, LATER)
    assert not ada.knows(copy, KNOWN)


@pytest.mark.parametrize("how", ["", "--no-local", "--separate-git-dir"])
def test_a_clone_has_nothing_of_the_memory(ada: Developer, project: Path, how: str) -> None:
    clone = ada.home / "code/clone"
    words = [how, str(ada.home / "code/clone.data")] if how == "--separate-git-dir" else [how] if how else []
    git(ada.home, "clone", "--quiet", *words, project, clone)
    assert is_apart(ada, clone)
    assert ada.knows(project, KNOWN)
    if how == "--separate-git-dir":
        assert (clone / ".git").is_file()
        (clone / "src").mkdir()
        assert ada.knows(clone / "src", LATER)
        assert git(clone, "status", "--porcelain", "--ignored") == ""
        assert ada.knows(clone.rename(ada.home / "moved"), LATER)  # its .git names the other folder in full


@pytest.mark.parametrize("how", ["init", "clone"])
def test_one_that_is_deleted_and_made_anew_has_nothing_until_its_owner_resumes_it(
    ada: Developer, project: Path, how: str
) -> None:
    memory, origin = ada.path(project), ada.home / "origin"
    git(ada.home, "clone", "--quiet", project, origin)
    shutil.rmtree(project)
    if how == "init":
        remade(project)
    else:
        git(ada.home, "clone", "--quiet", origin, project)
    assert ada.start(project) == ""
    assert KNOWN not in ada.dreamd(project, "search", "bees").out
    ada.do(project, "init", "--resume")
    assert ada.path(project) == memory
    assert ada.knows(project, KNOWN)
    assert not ada.knows(origin, KNOWN)


def test_a_new_memory_at_the_path_of_a_deleted_project_takes_nothing_from_the_old_one(
    ada: Developer, project: Path
) -> None:
    shutil.rmtree(project)
    remade(project)
    assert is_apart(ada, project)
    asked = ada.dreamd(project, "init", "--resume")
    assert asked.status == 0 or str(project) in asked.err
    assert (len(ada.holders(KNOWN)), len(ada.holders(LATER))) == (1, 1)  # whichever is in use, both are there


@pytest.mark.parametrize("where", ["elsewhere", "at the same place", "looked at while both were there"])
def test_one_that_was_moved_file_by_file_or_restored_from_a_backup_goes_on(
    ada: Developer, project: Path, where: str
) -> None:
    memory, backup = ada.path(project), BytesIO()
    with tarfile.open(fileobj=backup, mode="w") as archive:
        archive.add(project, "harbour")
    target = project.parent if where == "at the same place" else ada.home / "disk"
    if where == "looked at while both were there":
        copied(project, target)
        assert not ada.knows(target, KNOWN)
        shutil.rmtree(target)
    shutil.rmtree(project)
    backup.seek(0)
    with tarfile.open(fileobj=backup) as archive:
        archive.extractall(target, filter="tar")
    assert ada.knows(target / "harbour", KNOWN)
    ada.note(target / "harbour", LATER)
    assert ada.holders(LATER) == {memory.parent.name}
    assert ada.path(target / "harbour") == memory


@pytest.mark.parametrize("first", ["main", "tree"])
def test_worktrees_share_the_memory_and_leave_it_when_they_go(ada: Developer, first: str) -> None:
    project, trees = ada.repository("harbour"), ada.home / "trees"
    for name in ("one", "two"):
        git(project, "worktree", "add", "--quiet", "--detach", trees / name)
    (trees / "two/deep").mkdir()
    ada.note(project if first == "main" else trees / "one", KNOWN)
    ada.note(trees / "two/deep", LATER)
    folders = (project, trees / "one", trees / "two/deep")
    assert [one for one in folders if KNOWN not in (told := ada.start(one)) or LATER not in told] == []
    assert {ada.path(one) for one in folders} == {ada.path(project)}
    assert len(ada.memories()) == 1
    git(project, "worktree", "move", trees / "two", trees / "three")
    assert ada.knows(trees / "three/deep", LATER)
    for name in ("one", "three"):
        git(project, "worktree", "remove", trees / name)
    assert ada.knows(project, KNOWN)
    remade(trees / "one")  # at the path of a worktree that is gone
    assert ada.start(trees / "one") == ""
    project.rename(ada.home / "port")
    git(ada.home / "port", "worktree", "add", "--quiet", "--detach", trees / "four")
    assert ada.knows(trees / "four", LATER)
    assert len(ada.memories()) == 1


@pytest.mark.parametrize("layout", ["bare.git", "a .git file beside"])
def test_worktrees_of_a_bare_repository_share_one_memory(ada: Developer, project: Path, layout: str) -> None:
    top = ada.home / "bare"
    top.mkdir()
    bare = top / ("bare.git" if layout == "bare.git" else ".bare")
    git(top, "clone", "--quiet", "--bare", project, bare)
    if layout != "bare.git":
        (top / ".git").write_text("gitdir: ./.bare\n")
    for name in ("one", "two"):
        git(bare, "worktree", "add", "--quiet", "--detach", top / name)
    assert is_apart(ada, top / "one")
    assert ada.knows(top / "two", LATER)
    assert (LATER in ada.start(top)) is (layout != "bare.git")  # the folder itself is the repository, or is nothing
    git(bare, "worktree", "remove", top / "one")
    assert ada.knows(top / "two", LATER)
    assert tree(top / "two") == {"code.py": b"print()\n"}
    moved = top.rename(ada.home / "moved")
    if layout == "bare.git":
        assert ada.start(moved / "two") == ""  # git does not know either what this belongs to
    git(moved / bare.name, "worktree", "repair", moved / "two")
    assert ada.knows(moved / "two", LATER)


def test_a_submodule_has_a_memory_of_its_own(ada: Developer, project: Path) -> None:
    outer = ada.remembering("outer", "Of the outer one")
    git(outer, "submodule", "--quiet", "add", project, "below")
    ada.commit(outer)
    assert is_apart(ada, outer / "below")
    assert "Of the outer one" not in ada.start(outer / "below")
    assert ada.knows(outer, "Of the outer one")
    assert not ada.knows(outer, LATER)
    assert git(outer, "status", "--porcelain", "--ignored") == ""
    git(ada.home, "clone", "--quiet", "--recurse-submodules", outer, ada.home / "clone")
    assert ada.start(ada.home / "clone/below") == ""


# What people do with git in a project that has a file `new` and a branch `other`.
STEPS = (
    "clean -fdx --quiet", "add new", "stash push --include-untracked", "switch --quiet other", "switch --quiet main",
    "stash pop", "commit --quiet -m new", "merge --quiet --no-edit other", "reset --quiet --hard HEAD~2",
    "checkout --quiet --detach other", "switch --quiet main", "rebase --quiet other", "gc --quiet --prune=now",
    "pack-refs --all", "repack -adq", "update-ref -d refs/heads/other", "branch -m trunk", "init --quiet",
    "fsck --no-progress", "clean -ffdx --quiet",
)  # fmt: skip


def test_nothing_that_git_does_changes_the_memory_or_is_changed_by_it(ada: Developer, project: Path) -> None:
    git(project, "switch", "--quiet", "-c", "other")
    (project / "theirs").write_text("1\n")
    ada.commit(project)
    git(project, "switch", "--quiet", "main")
    memory = ada.path(project)
    content, failed = tree(memory.parent), []
    for step in STEPS:
        if step in ("add new", "commit --quiet -m new"):
            (project / "new").write_text("1\n")
        git(project, *step.split())
        if not ada.knows(project, KNOWN) or git(project, "status", "--ignored", "--porcelain", "--", ":!new"):
            failed.append(step)
    assert failed == []
    assert ada.path(project) == memory
    changed = {name for name, text in tree(memory.parent).items() if content.get(name) != text}
    assert {name for name in changed if "bootstrap" not in name} == set()


def test_many_who_note_first_at_once_make_one_memory(ada: Developer) -> None:
    project = ada.repository("harbour")
    git(project, "worktree", "add", "--quiet", "--detach", ada.home / "tree")
    texts = [f"Lantern {number} is at the gate" for number in range(6)]
    started = [
        Forked(
            ["note", text],
            cwd=(project, ada.home / "tree")[number % 2],
            env=ada.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, text in enumerate(texts)
    ]
    ended = [(one.communicate()[1], one.returncode) for one in started]
    assert [one for one in ended if one[1]] == []
    assert len(ada.memories()) == 1
    told = ada.start(project)
    assert [text for text in texts if text not in told] == []


@pytest.mark.full
def test_a_daemon_keeps_the_memory_of_a_project_wherever_it_goes(ada: Developer) -> None:
    with ada.serving():
        project = ada.remembering("code/harbour", KNOWN)  # it begins while the daemon runs
        memory = ada.path(project)
        ada.session(project, "Thanks")
        until(lambda: memory.exists() and KNOWN in memory.read_text())
        renamed = project.rename(ada.home / "code/port")
        server(ada, renamed, LATER)
        assert ada.holders(LATER) == {memory.parent.name}
        assert is_apart(ada, copied(renamed, project), "Of the copy")
        ada.session(renamed, "Thanks again", name="again")
        ada.do(renamed, "dream")  # the daemon would after a pause
        assert LATER in memory.read_text()
        ada.do(ada.home, "ignore", renamed)
        before = tree(memory.parent)
        ada.session(renamed, "Never mind", name="ignored")
        server(ada, renamed, "Nobody keeps this")
        assert ada.holders("Nobody keeps this") == set()
        assert set(tree(memory.parent)) == set(before)
    assert len(ada.memories()) == 2


# ------------------------------------------------------------------- nothing in the tree


@pytest.fixture(scope="module")
def lived() -> Iterator[tuple[Developer, Path, dict[str, bytes], dict[str, bytes]]]:
    """A package with a memory that has been used in every way; what its tree and its .git had before."""
    with at_home() as ada:
        project = ada.repository("harbour")
        (project / "package.json").write_text(NPM)
        (project / "pyproject.toml").write_text(HATCH)
        (project / "src").mkdir()
        (project / "src/index.js").write_text("1\n")
        ada.commit(project)
        before, own = tree(project), tree(project / ".git")
        ada.do(project, "init")
        ada.note(project / "src", KNOWN)
        ada.do(project, "dream")
        ada.session(project, LATER)
        ada.session(project / "src", "Thanks")
        server(ada, project, "Noted over MCP")
        for words in (
            ("search", "bees"),
            ("status",),
            ("doctor",),
            ("history",),
            ("why", KNOWN),
            ("forget", "Thanks", "--yes"),
        ):
            ada.dreamd(project, *words)
        told = ada.start(project)
        assert (KNOWN in told, "Noted over MCP" in told) == (True, True)
        assert KNOWN in ada.path(project).read_text()
        yield ada, project, before, own


def server(ada: Developer, project: Path, text: str) -> None:
    """Note this through the server that an agent starts in the project."""
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
    noted = {"name": "working_memory_note", "arguments": {"note": text}}
    rows = (
        {"id": 1, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": noted},
    )
    stdin = "".join(json.dumps({"jsonrpc": "2.0", **row}) + "\n" for row in rows)
    assert ada.dreamd(project, "mcp", stdin=stdin.encode()).status == 0


def test_git_sees_nothing_of_a_memory_that_is_used(
    lived: tuple[Developer, Path, dict[str, bytes], dict[str, bytes]],
) -> None:
    _, project, before, own = lived
    assert git(project, "status", "--ignored", "--porcelain") == ""
    assert tree(project) == before
    after = tree(project / ".git")
    assert after["info/exclude"] == own["info/exclude"]
    # git itself writes its index anew; the one file of ours is a name.
    assert after.keys() ^ own.keys() == {"dreamd"}
    assert {name for name in own if own[name] != after[name]} <= {"index"}
    assert after["dreamd"].count(b"\n") == 1
    assert len(after["dreamd"]) < 100


def npm(project: Path, _: Path) -> dict[str, bytes]:
    listed = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--offline"], cwd=project, capture_output=True, check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(project.parent)},
    )  # fmt: skip
    files = json.loads(listed.stdout)[0]["files"]
    return {one["path"]: (project / one["path"]).read_bytes() for one in files}


def built(project: Path, target: Path, kind: str, pattern: str) -> Path:
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(words, cwd=project, capture_output=True, check=True)
    return next(target.glob(pattern))


def sdist(project: Path, target: Path) -> dict[str, bytes]:
    with tarfile.open(built(project, target, "sdist", "*.tar.gz")) as archive:
        return unpacked(archive, "harbour-1.0.0/")


def wheel(project: Path, target: Path) -> dict[str, bytes]:
    with ZipFile(built(project, target, "wheel", "*.whl")) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        return {name: archive.read(name) for name in names}


def context(project: Path, target: Path) -> dict[str, bytes]:
    """Return what `docker build .` sends without a .dockerignore: everything, and .git, too."""
    with tarfile.open(target / "context.tar", "w") as archive:
        archive.add(project, ".")
    with tarfile.open(target / "context.tar") as archive:
        return unpacked(archive, "./")


def unpacked(archive: tarfile.TarFile, prefix: str) -> dict[str, bytes]:
    files = ((one.name.removeprefix(prefix), archive.extractfile(one)) for one in archive.getmembers())
    return {name: file.read() for name, file in files if file}


@pytest.mark.parametrize("pack", spread([npm, sdist, wheel, context], 2))
def test_no_package_has_anything_of_the_memory(
    lived: tuple[Developer, Path, dict[str, bytes], dict[str, bytes]],
    tmp_path: Path,
    pack: Callable[[Path, Path], dict[str, bytes]],
) -> None:
    if pack is npm and not shutil.which("npm"):
        pytest.skip("there is no npm")
    ada, project, before, own = lived
    packed = pack(project, tmp_path)
    assert "src/index.js" in packed
    # A build adds its own PKG-INFO; a whole context has .git, and there a name that says nothing.
    known = {*before, *(f".git/{name}" for name in own), "PKG-INFO", ".git/dreamd"}
    assert packed.keys() - known == set()
    for text in (KNOWN, LATER, "Noted over MCP", "transcripts", "MEMORY.md", str(ada.data)):
        assert [name for name, content in packed.items() if text.encode() in content] == []
    assert tree(project) == before
