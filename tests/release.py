"""What `make release` runs: builds both distributions into dist/ and tries them as somebody who installs them.

    python -m tests.release            on each supported Python of this machine, with the package index
    python -m tests.release --short    the archives and the changelog alone, without the network

It tags and uploads nothing: it prints what is left to do by hand.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.running import ROOT

UV = ROOT / ".venv" / "bin" / "uv"  # of 'make install'
CLIENT = ROOT / "daemon" / "client"
PYTHONS = ("3.11", "3.12", "3.13")
# What a distribution must not hold: a file of these names, or a path of the machine that built it.
_NOT_SHIPPED = re.compile(
    r"(^|/)(tests|transcripts|\.venv|__pycache__)/|(^|/)(MEMORY\.md|GENOME\.md|scratch\.md|\.env)$"
)
# In the folder of a program that has the client alone: with `dreamd` as its last argument.
PROGRAM = """
import sys
from importlib.util import find_spec
from dreamd_client import Client
assert not any(map(find_spec, ("daemon", "state", "graphs", "prompts")))
memory = Client(sys.argv[1], program=sys.argv[2])
memory.note("Grace prefers coffee", importance=0.9)
assert memory.search("coffee").hits[0].text == "Grace prefers coffee"
assert "coffee" in memory.bootstrap().text
"""


class NotFitError(Exception):
    """What keeps this from being released."""


def version_of(folder: Path) -> str:
    """The version of the distribution in this folder."""
    return str(tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def build(folder: Path, out: Path) -> tuple[Path, Path]:
    """The sdist and the wheel that is made of it, which is the one that the folder itself makes."""
    here = Path(tempfile.mkdtemp(dir=out))
    words: list[str | Path] = [UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, folder]
    subprocess.run([*words, "--out-dir", here / "both"], check=True)
    subprocess.run([*words, "--out-dir", here / "wheel", "--wheel"], check=True)
    (sdist,), (wheel,), (own,) = (
        list((here / one).glob(kind)) for one, kind in (("both", "*.tar.gz"), ("both", "*.whl"), ("wheel", "*.whl"))
    )
    if dict(contents(wheel)) != dict(contents(own)):
        raise NotFitError(f"{sdist.name} makes another {wheel.name} than {folder} does")
    moved = sdist.replace(out / sdist.name), wheel.replace(out / wheel.name)
    shutil.rmtree(here)
    return moved


def contents(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel or an sdist, by their paths in it."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(archive) as sdist:
        for member in sdist:
            file = sdist.extractfile(member)
            yield member.name.partition("/")[2], file.read() if file else b""


def check_archive(archive: Path) -> None:
    """Raise NotFitError if it holds what is not to be shipped."""
    home = f"{Path.home()}/"
    private = [f"{ROOT}/".encode(), *([home.encode()] if home != "/root/" else [])]  # docs may speak of /root
    for name, content in contents(archive):
        if _NOT_SHIPPED.search(name):
            raise NotFitError(f"{archive.name} holds {name}")
        if any(path in content for path in private):
            raise NotFitError(f"{archive.name}: {name} has a path of this machine in it")


def check_changelog(version: str) -> None:
    """Raise NotFitError unless the version has a section with a date."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} — \d{{4}}-\d\d-\d\d$", text, re.MULTILINE):
        raise NotFitError(f"CHANGELOG.md has no section '## {version} — YYYY-MM-DD'")


def check_git(version: str) -> None:
    """Raise NotFitError if something is not committed, or the version was tagged before."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    if changed := git("status", "--porcelain"):
        raise NotFitError(f"not committed:\n{changed}")
    if git("tag", "--list", f"v{version}"):
        raise NotFitError(f"there is a tag v{version}: this version was released, so it needs another number")


def interpreter(version: str) -> str | None:
    """An interpreter of this version that starts: on the PATH, of pyenv or of uv."""
    homes = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv")), str(Path.home() / ".local/share/uv/python")
    patterns = (f"versions/{version}*/bin/python{version}", f"cpython-{version}*/bin/python{version}")
    places = [one for home in homes for pattern in patterns for one in map(str, sorted(Path(home).glob(pattern)))]
    for one in filter(None, [shutil.which(f"python{version}"), *places]):
        if not subprocess.run([one, "-c", "import sqlite3"], capture_output=True, check=False).returncode:
            return one
    return None


def try_out(wheel: Path, client: Path, python: str, place: Path) -> None:
    """Install both, each in an environment of its own, and use them in a new home. Raise CalledProcessError."""
    environments: dict[str, list[str | Path]] = {
        "dreamd": [wheel, "--constraint", ROOT / "requirements.lock"],
        "program": [client],
    }
    for name, words in environments.items():
        subprocess.run([UV, "venv", "--quiet", "--python", python, place / name], check=True)
        subprocess.run([UV, "pip", "install", "--quiet", "--python", place / name, *words], check=True)
    program, home, folder = str(place / "dreamd" / "bin" / "dreamd"), place / "home", str(place / "home" / "agent")
    home.mkdir()
    variables = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PATH": "/usr/bin:/bin"}

    def run(*words: str) -> str:
        return subprocess.run(words, cwd=home, env=variables, capture_output=True, text=True, check=True).stdout

    if (said := run(program, "--version")) != f"dreamd {version_of(ROOT)}\n":
        raise NotFitError(f"{program} says that it is {said!r}")
    run(program, "init", "--no-daemon", folder)
    run(program, "note", "-w", folder, "Ada prefers tea", "--importance", "0.9")
    run(program, "dream", folder)
    if "Ada prefers tea" not in run(program, "bootstrap", folder):
        raise NotFitError(f"on {python} a dream loses the note")
    run(str(place / "program" / "bin" / "python"), "-c", PROGRAM, folder, program)


def release(dist: Path, *, short: bool) -> None:
    """Build and try everything. Raise NotFitError and CalledProcessError."""
    version = version_of(ROOT)
    if version_of(CLIENT) != version:
        raise NotFitError(f"dreamd is {version} and dreamd-client {version_of(CLIENT)}")
    check_changelog(version)
    if not short:
        check_git(version)
    dist.mkdir(exist_ok=True)
    built = [*build(ROOT, dist), *build(CLIENT, dist)]
    for archive in built:
        check_archive(archive)
        print(f"{archive.stat().st_size // 1024:6,} KiB  {archive.name}")
    for number in () if short else PYTHONS:
        python = interpreter(number)
        if python is None:
            print(f"Python {number}: not on this machine, so not tried")
            continue
        with tempfile.TemporaryDirectory(prefix="dreamd-release-", dir="/var/tmp") as place:
            try_out(built[1], built[3], python, Path(place))
        print(f"Python {number}: installed, noted, dreamt, read and searched ({python})")
    print(f"\nLeft to do by hand:\n  git tag -a v{version} -m 'dreamd {version}' && git push origin v{version}")
    print(f"  {UV.relative_to(ROOT)} publish dist/dreamd-{version}* dist/dreamd_client-{version}*")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="without installing anything, and on any commit")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the archives go")
    options = parser.parse_args()
    try:
        release(options.dist, short=options.short)
    except (NotFitError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or ""
        print(f"{said}not fit to be released: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
