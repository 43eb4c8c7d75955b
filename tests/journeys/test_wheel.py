"""The wheel is all that a machine needs: it works in an environment of its own, far from the repository."""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from state.errors import DreamdError
from tests.release import CLIENT, PROGRAM, NotFitError, build, check_archive, check_changelog, version_of
from tests.support.embedding import PACKAGE
from tests.support.recipes import follower
from tests.support.running import ROOT
from tests.support.serving import Home, until

UV = ROOT / ".venv" / "bin" / "uv"  # of 'make install'
PACKAGES = ("daemon", "graphs", "prompts", "state")
VERSION = version_of(ROOT)

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not UV.exists(), reason="uv is not in .venv, which 'make install' makes"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder on the disk where uv's cache is: what is installed are links into it."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


def test_both_archives_have_every_file_of_the_packages_and_nothing_else(place: Path) -> None:
    sdist, wheel = build(ROOT, place)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    ours = {name for name in listed.splitlines() if name.split("/")[0] in PACKAGES and (ROOT / name).exists()}
    wanted = {name for name in ours if not name.startswith("daemon/client/")}  # another distribution
    assert {Path(name).suffix for name in wanted} >= set(".py .md .tsv .yaml .html .css .js .service".split())
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert wanted <= names
    assert [name for name in names - wanted if not name.endswith(".py")] == []  # one that git does not know yet
    with tarfile.open(sdist) as source:
        members = {name.partition("/")[2] for name in source.getnames()}
    assert wanted | {"README.md", "LICENSE", "config.yaml", "requirements.lock"} <= members


def test_a_release_is_fit_as_far_as_neither_git_nor_an_index_is_asked(place: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.release", "--short", "--dist", place / "dist"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"git tag -a v{VERSION}" in ended.stdout
    assert len(list((place / "dist").iterdir())) == 4


def test_what_is_not_to_be_shipped_is_found(tmp_path: Path) -> None:
    for name, content in (("x/tests/test_it.py", ""), ("agent/MEMORY.md", ""), ("x.py", f"A = '{ROOT}/x'")):
        archive = tmp_path / "one.whl"
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr(name, content)
        with pytest.raises(NotFitError, match=name):
            check_archive(archive)
    with pytest.raises(NotFitError, match=r"## 9\.9\.9 —"):
        check_changelog("9.9.9")


def test_a_program_has_nothing_but_the_client(place: Path, home: Home) -> None:
    _, wheel = build(CLIENT, place)
    venv, user = place / "venv", follower(home)
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    subprocess.run([UV, "pip", "install", "--quiet", "--offline", "--python", str(venv), str(wheel)], check=True)
    words = [str(venv / "bin" / "python"), "-I", "-c", PROGRAM, str(user.workspace.root), str(user.program)]
    ended = subprocess.run(words, env=user.environment(), cwd="/", capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_it_works_where_nothing_else_is(place: Path, home: Home) -> None:
    _, wheel = build(ROOT, place)
    venv = place / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    lock = ["--constraint", str(ROOT / "requirements.lock")]
    subprocess.run([UV, "pip", "install", "--quiet", "--python", str(venv), *lock, str(wheel)], check=True)
    program, root = venv / "bin" / "dreamd", home.folder / "agent"
    variables = home.environment(XDG_DATA_DIRS=str(home.folder / "none"))

    def dreamd(*words: str | Path, stdin: str = "") -> str:
        command = [str(program), *map(str, words)]
        ended = subprocess.run(
            command, env=variables, cwd="/", input=stdin, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
        return ended.stdout

    where = [str(venv / "bin" / "python"), "-c", "import daemon, state; print(daemon.__file__, state.__file__)"]
    loaded = subprocess.run(where, cwd="/", env=variables, capture_output=True, text=True, check=True).stdout
    assert all(one.startswith(str(venv)) for one in loaded.split())
    assert dreamd("--version") == f"dreamd {VERSION}\n"
    assert str(program) in dreamd("init", root, "--no-daemon")
    assert "ExecStart=" in dreamd("install-service", "--print")
    dreamd("note", "-w", root, "Douglas prefers tabs over spaces", "--importance", "0.9")
    dreamd("dream", root)
    assert "Douglas prefers tabs" in (root / "MEMORY.md").read_text()
    assert "Douglas" in dreamd("bootstrap", root)
    assert "'dreamd models install'" in dreamd("doctor", root)
    assert "in use" in dreamd("models", "install", "--from", PACKAGE)
    assert "Douglas prefers tabs" in dreamd("search", "-w", root, "what does he indent with?")
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}) + "\n"
    answered = json.loads(dreamd("mcp", "-w", root, stdin=asked).splitlines()[0])
    assert answered["result"]["serverInfo"]["name"] == "dreamd"
    home.with_port()
    dreamd("init", root)
    with (home.folder / "said").open("ab") as log:
        daemon = subprocess.Popen([program, "serve"], env=variables, cwd="/", stdout=log, stderr=log)
    try:
        until(lambda: (daemon.poll() is not None) or _answers(home), (home.folder / "said").read_text)
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(dreamd("open", root, "--print").strip()) as page:
            assert "Douglas prefers tabs" in browser.open(f"{page.url.rpartition('/')[0]}/memory").read().decode()
    finally:
        daemon.terminate()
        assert daemon.wait(60) == 0


def _answers(home: Home) -> bool:
    try:
        return bool(home.client.get("/readyz"))
    except DreamdError:
        return False
