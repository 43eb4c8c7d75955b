"""The list of workspaces: nobody's line is lost, and each workspace has one name for ever."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.registry import WorkspaceList, add, exclude, excluded, known, name_of
from daemon.workspace.adoption import init_workspace
from state.errors import UsageError
from tests.support.running import ROOT


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    return tmp_path / "state" / "dreamd" / "workspaces"


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_what_is_excluded_stays_out_whoever_names_it(registry: Path, tmp_path: Path) -> None:
    one, two = folder(tmp_path / "one"), folder(tmp_path / "two")
    for root in (one, two):
        init_workspace(root)
    (tmp_path / "link").symlink_to(one)
    assert exclude(registry, tmp_path / "link")
    assert found(registry, ("~/*",), tmp_path) == ([two], ())
    assert registry.stat().st_mode & 0o777 == 0o600
    assert add(registry, one)
    assert (known(registry), excluded(registry)) == ((one,), frozenset())


def test_what_a_person_wrote_stays(registry: Path, tmp_path: Path) -> None:
    root = folder(tmp_path / "root")
    registry.parent.mkdir(parents=True)
    registry.write_text(f"# mine\n\n  /gone/  \n# {root}\n/gone\nrelative")
    assert known(registry) == (Path("/gone"),)
    assert add(registry, root)
    assert registry.read_text() == f"# mine\n\n  /gone/  \n# {root}\n/gone\nrelative\n{root}\n"
    assert exclude(registry, Path("/gone"))
    assert registry.read_text() == f"# mine\n\n# {root}\nrelative\n{root}\n!/gone\n"


@given(st.lists(st.sampled_from("abcdef")), st.text(alphabet="#/ab \t\n"))
def test_any_text_before_survives_adding_and_excluding(names: list[str], text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        registry = Path(name).resolve() / "workspaces"
        registry.write_text(text)
        before = known(registry)
        roots = [Path(name).resolve() / one for one in names]
        for at, root in enumerate(roots):
            assert add(registry, root) is (root not in roots[:at])
        assert known(registry)[-len(set(roots)) :] == tuple(dict.fromkeys(roots)) or not roots
        for at, root in enumerate(roots):
            assert exclude(registry, root) is (root not in roots[:at])
        assert (known(registry), excluded(registry)) == (before, frozenset(roots))
        after = "".join(row for row in registry.read_text().splitlines(keepends=True) if f"!{name}/" not in row)
        assert after == text or (after == f"{text}\n" and not text.endswith("\n"))


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "end "])
def test_a_path_that_is_no_line_is_refused(registry: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="one path a line"):
        add(registry, folder(tmp_path / name))
    assert known(registry) == ()


def test_a_name_that_is_not_utf8_is_kept(registry: Path, tmp_path: Path) -> None:
    root = folder(tmp_path / "caf\udce9")
    assert add(registry, root)
    assert known(registry) == (root,)
    assert found(registry, (), tmp_path) == ([root], ())


@pytest.mark.full
def test_processes_that_write_at_once_lose_no_line(registry: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from daemon.config.registry import add, exclude\n"
        "registry, root = map(Path, sys.argv[1:])\n"
        "for number in range(20):\n"
        "    assert add(registry, root / str(number)), number\n"
        "    assert number % 2 or exclude(registry, root / str(number)), number\n"
    )

    def another(root: Path) -> None:
        command = [sys.executable, "-c", script, str(registry), str(root)]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, "")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(another, [tmp_path / f"p{number}" for number in range(6)]))
    expected = {tmp_path / f"p{number}" / str(odd) for number in range(6) for odd in range(1, 20, 2)}
    assert set(known(registry)) == expected
    assert len(known(registry)) == len(expected)


def found(registry: Path, configured: tuple[str, ...], home: Path) -> tuple[list[Path], tuple[str, ...]]:
    """The roots that these name, each once, and what is wrong with them."""
    listing = WorkspaceList(registry, (), home)
    roots = [root for entry in listing.read(configured) for root in listing.record(entry, listing.look_up(entry))]
    return list(dict.fromkeys(roots)), tuple(map(str, listing.problems()))


def test_only_what_no_entry_names_any_longer_is_let_go(registry: Path, tmp_path: Path) -> None:
    odd, stays = folder(tmp_path / "a  b; c"), folder(tmp_path / "glob" / "stays")
    init_workspace(stays)
    add(registry, odd)
    listing = WorkspaceList(registry, (), tmp_path)
    every = (odd, stays)

    def looked_up(*configured: str) -> list[Path]:
        for entry in listing.read(configured):
            listing.record(entry, listing.look_up(entry))
        return listing.unlisted(every)

    assert looked_up("~/glob/*") == []
    odd.rmdir()
    stays.rename(tmp_path / "away")
    assert looked_up("~/glob/*") == []  # a disk that is not mounted now, perhaps
    entries = listing.read(("~/glob/*", "~/new/*"))
    assert listing.unlisted(every) == []
    for entry in entries:
        listing.record(entry, listing.look_up(entry))
    assert looked_up() == [stays]
    exclude(registry, odd)
    assert looked_up() == [odd, stays]


def test_the_registry_and_the_configuration_are_one_set(registry: Path, tmp_path: Path) -> None:
    one, two, plain = folder(tmp_path / "one"), folder(tmp_path / "two"), folder(tmp_path / "plain")
    for root in (one, two):
        init_workspace(root)
    (tmp_path / "link").symlink_to(two)
    add(registry, one)
    assert found(registry, ("~/*", "~/plain", str(tmp_path / "link")), tmp_path) == ([one, two, plain], ())
    assert found(registry, ("~",), one) == ([one], ())


def test_what_is_gone_is_a_problem_and_the_others_count(registry: Path, tmp_path: Path) -> None:
    gone, stays = folder(tmp_path / "gone"), folder(tmp_path / "stays")
    add(registry, gone)
    add(registry, stays)
    with registry.open("a") as file:
        file.write("relative/path\n/no\0path\n")
    gone.rmdir()
    roots, problems = found(registry, ("~/none", "~/none/*", "relative", "~ada/x", "/a\0b"), tmp_path)
    assert roots == [stays]
    assert problems == (
        f"{gone}: no such folder; bring it back, or take its line out of {registry}",
        f"{registry}: 'relative/path' is no absolute path; mend or remove the line",
        f"{registry}: '/no\\x00path' is no absolute path; mend or remove the line",
        "~/none: no such folder; bring it back, or take it out of daemon.workspaces",
        "daemon.workspaces: '~/none/*' names no workspace; mend or remove it",
        "daemon.workspaces: 'relative' is no absolute path; mend or remove it",
        "daemon.workspaces: '~ada/x' is no absolute path; mend or remove it",
        "daemon.workspaces: '/a\\x00b' is no absolute path; mend or remove it",
    )
    assert gone in known(registry)


def test_a_name_is_stable_and_readable() -> None:
    assert name_of(Path("/home/ada/My Projects.d")) == "my-projects-d-d61ee5f60b66"
    assert name_of(Path("/home/ada/x/../My Projects.d")) == "my-projects-d-d61ee5f60b66"
    assert re.fullmatch(r"workspace-[0-9a-f]{12}", name_of(Path("/")))
    assert re.fullmatch(r"workspace-[0-9a-f]{12}", name_of(Path("/home/アダ")))


def test_distinct_paths_have_distinct_names() -> None:
    paths = [Path(f"/srv/tenants/{number}/memory") for number in range(20_000)]
    paths += [Path("/srv") / (sign * 60) for sign in "abcdefgh"]
    assert len({name_of(path) for path in paths}) == len(paths)
