"""What happens to a project's folder, with the real git: its memory goes along with it, and with nothing else."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.developer import Developer, at_home, tree
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


def is_apart(ada: Developer, folder: Path, text: str = LATER) -> bool:
    """Return whether this folder is told nothing of what is known, and keeps what is noted there from others."""
    before = ada.holders(KNOWN)
    first = ada.start(folder)
    ada.note(folder, text)
    second, kept = ada.start(folder), ada.holders(text)
    assert (KNOWN in first, KNOWN in second, text in second) == (False, False, True)
    assert ada.holders(KNOWN) == before
    return kept == {ada.path(folder).parent.name} and not kept & before


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
