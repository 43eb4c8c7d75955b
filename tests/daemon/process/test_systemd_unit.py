"""The unit: what it opens and what it closes, how it is put in its place, and the command that does it."""

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.cli import command
from daemon.process import systemd_unit
from daemon.process.systemd_unit import Installation, Placed, Sandbox
from state.errors import StorageError, UsageError
from tests.support.running import ROOT

HERE = Installation(("/opt/dreamd/bin/dreamd",), (Path("/opt/dreamd"), Path("/usr")), Path("/opt/dreamd/lib/site"))
HOME = Path("/home/ada")
SYSTEM = {
    "User": ["dreamd"],
    "ExecStart": ["/opt/dreamd/bin/dreamd serve /srv/agent /home/ada/agent"],
    "ProtectHome": ["tmpfs"],
    "ReadWritePaths": ["-/srv/agent"],
    "BindPaths": ["-/home/ada/agent"],
    "BindReadOnlyPaths": [],
    "StateDirectory": ["dreamd"],
    "WantedBy": ["multi-user.target"],
}


def directives(text: str, name: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.partition("=")[0] == name]


def test_a_users_unit_opens_the_home_and_closes_what_is_worth_stealing() -> None:
    text = systemd_unit.user_unit(HERE)
    assert directives(text, "ExecStart") == ["/opt/dreamd/bin/dreamd serve"]
    assert directives(text, "ExecReload") == ["/bin/kill -HUP $MAINPID"]
    assert directives(text, "Type") == ["notify"]
    assert directives(text, "ReadWritePaths") == ["%h"]
    assert {"-%h/.ssh", "-%h/.gnupg", "-%t/bus", "-%t/systemd/private"} <= {*directives(text, "InaccessiblePaths")}
    fixed = {*directives(text, "ReadOnlyPaths")}
    assert {"-%h/.bashrc", "-%h/.profile", "-%h/.local/bin", "-%h/.config/dreamd/environment"} <= fixed
    assert "-%h/.config/dreamd" not in fixed  # a page of the window writes config.yaml
    assert (directives(text, "WantedBy"), directives(text, "User")) == (["default.target"], [])
    assert not {"${", "#<", "#>"} & {line[:2] for line in text.splitlines()}


def test_a_systems_unit_has_an_account_its_workspaces_and_no_home() -> None:
    text = systemd_unit.system_unit(HERE, "dreamd", [Path("/srv/agent"), HOME / "agent"])
    assert {name: directives(text, name) for name in SYSTEM} == SYSTEM
    assert "DREAMD_SOCKET=%t/dreamd/dreamd.sock" in text
    assert "${" not in text


def test_an_installation_in_a_home_is_there_for_the_system_and_read_only_for_its_user() -> None:
    tool, source = HOME / ".local/share/uv/tools/dreamd", HOME / "src/dreamd"
    inside = replace(HERE, runtime=(tool,), source=tool / "lib/site-packages")
    for installed, seen in ((inside, [f"-{tool}"]), (replace(inside, source=source), [f"-{tool}", f"-{source}"])):
        assert directives(systemd_unit.system_unit(installed, "dreamd", []), "BindReadOnlyPaths") == seen
        assert f"-{tool}" in directives(systemd_unit.user_unit(installed, home=HOME), "ReadOnlyPaths")
        assert f"-{source}" not in directives(systemd_unit.user_unit(installed, home=HOME), "ReadOnlyPaths")


def test_where_clients_look_the_service_looks() -> None:
    environment = {
        "XDG_STATE_HOME": "/data/state",
        "XDG_DATA_HOME": "/data/share",
        "DREAMD_SOCKET": "/data/run/d.sock",
        "DREAMD_CONFIG": "/home/ada/my config.yaml",
        "XDG_CONFIG_HOME": "relative, and so ignored",
        "OPENAI_API_KEY": "sk-never",
    }
    text = systemd_unit.user_unit(HERE, [HOME / "agent", Path("/srv/agent")], environment, HOME)
    said = directives(text, "Environment")
    assert {"XDG_STATE_HOME=/data/state", '"DREAMD_CONFIG=/home/ada/my config.yaml"'} <= {*said}
    assert not any("XDG_CONFIG_HOME" in one for one in said)
    assert "sk-never" not in text
    outside = ["-/srv/agent", "-/data/state", "-/data/share", "-/data/run"]  # one in the home needs no line
    assert directives(text, "ReadWritePaths") == ["%h", *outside]


def test_any_path_is_one_word() -> None:
    odd = Path('/srv/a b/100%/"quoted"/back\\slash/$HOME/東京')
    (_, said) = directives(systemd_unit.user_unit(HERE, [odd]), "ReadWritePaths")
    assert said == '"-/srv/a b/100%%/\\"quoted\\"/back\\\\slash/$HOME/東京"'
    command = replace(HERE, command=("/opt/a $b/dreamd",))
    assert directives(systemd_unit.user_unit(command), "ExecStart") == ['"/opt/a $$b/dreamd" serve']


@pytest.mark.parametrize(
    ("account", "folder"),
    [
        *[("agents", folder) for folder in ("/tmp/a", "/var/tmp/a", "/", "/home", "/root", "/a\nUser=root")],  # noqa: S108
        *[(account, "/srv/agent") for account in ("root", "", "a b", "a\nUser=root", "-x", "%u")],
    ],
)
def test_a_folder_or_an_account_that_no_service_may_have_is_refused(account: str, folder: str) -> None:
    with pytest.raises(UsageError, match=r"workspace|--user|control character"):
        systemd_unit.system_unit(HERE, account, [Path(folder)])
    if account == "agents":
        with pytest.raises(UsageError, match=r"workspace|control character"):
            systemd_unit.user_unit(HERE, [Path(folder)])


def test_a_reduced_unit_has_nothing_that_needs_a_namespace_and_keeps_the_rest() -> None:
    full, reduced = systemd_unit.user_unit(HERE), systemd_unit.user_unit(HERE, sandbox=Sandbox.REDUCED)
    for name in ("PrivateUsers", "ProtectSystem", "CapabilityBoundingSet", "PrivateDevices", "InaccessiblePaths"):
        assert directives(full, name)
        assert not directives(reduced, name)
    for name in ("NoNewPrivileges", "SystemCallFilter", "RestrictAddressFamilies", "WatchdogSec", "ExecStart"):
        assert directives(reduced, name) == directives(full, name)
    assert "Keys, logins" not in reduced


def test_this_installation_can_be_run_and_its_machine_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    here = systemd_unit.installation()
    run = subprocess.run([*here.command, "--version"], capture_output=True, cwd=ROOT, check=True, text=True)
    assert run.stdout.startswith("dreamd ")
    assert (here.source / "daemon" / "process" / "dreamd.service").is_file()
    assert Path(sys.prefix) in here.runtime
    assert systemd_unit.sandbox_here() in Sandbox
    monkeypatch.setenv("PATH", "/nonexistent")
    assert systemd_unit.sandbox_here() is Sandbox.REDUCED


def test_placing_twice_changes_nothing_and_what_is_replaced_is_kept_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "systemd" / "user" / systemd_unit.NAME
    old, new = systemd_unit.user_unit(HERE), systemd_unit.user_unit(replace(HERE, command=("/opt/new/dreamd",)))
    assert systemd_unit.place(path, old) is Placed.WRITTEN
    assert systemd_unit.place(path, old) is Placed.UNCHANGED
    assert list(path.parent.iterdir()) == [path]
    by_hand = old.replace("WatchdogSec=60", "WatchdogSec=90") + "# \udcff\n"
    path.write_text(by_hand, errors="surrogateescape")
    for placed in (Placed.REPLACED, Placed.UNCHANGED):
        assert systemd_unit.place(path, new) is placed
        assert path.read_text() == new
        assert path.stat().st_mode & 0o777 == 0o644
        kept = systemd_unit.previous(path)
        assert kept.read_text(errors="surrogateescape") == by_hand
        assert kept.suffix not in (".service", ".conf")


@pytest.mark.parametrize("words", ["--config /etc/c.yaml /srv/agent", "'/srv/agent"])
def test_the_folders_of_a_unit_by_hand_are_not_guessed(tmp_path: Path, words: str) -> None:
    path = tmp_path / systemd_unit.NAME
    assert systemd_unit.named_in(path) == ()
    path.write_text(f"[Service]\nExecStart=/usr/bin/dreamd serve {words}\n")
    with pytest.raises(UsageError, match="ExecStart= has more than workspaces"):
        systemd_unit.named_in(path)


def test_a_unit_that_leads_elsewhere_is_not_written_through(tmp_path: Path) -> None:
    elsewhere = tmp_path / "mine"
    elsewhere.write_text("mine")
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / systemd_unit.NAME).symlink_to(elsewhere)
    with pytest.raises(StorageError, match="replace the link"):
        systemd_unit.place(tmp_path / "user" / systemd_unit.NAME, systemd_unit.user_unit(HERE))
    assert elsewhere.read_text() == "mine"


# The command.


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "DREAMD_CONFIG", "DREAMD_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setattr(systemd_unit, "_PRIVATE", ())  # the folders of tests lie in /tmp
    return tmp_path


def install(*words: str | Path) -> int:
    parser, run = command("install-service")
    return run(parser.parse_args([*map(str, words)]))


def test_installing_writes_the_unit_and_says_what_to_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".config/systemd/user/dreamd.service"
    for sandbox, out, err in (
        ("full", [f"written: {path}", "next: systemctl --user daemon-reload && systemctl --user enable --now dreamd"],
         [f"{home}/.config/dreamd/environment"]),
        ("full", ["unchanged:"], []),
        ("reduced", ["replaced:", "systemctl --user restart dreamd"],
         ["without its file system sandbox",
          f"the unit before is {path}.previous; changes of yours belong in a drop-in"]),
    ):  # fmt: skip
        assert install("--sandbox", sandbox) == 0
        shown = capsys.readouterr()
        assert [text for text in out if text not in shown.out] == []
        assert [text for text in err if text not in shown.err] == []
    assert path.read_text().startswith("# Written by 'dreamd install-service'")


def test_installing_again_keeps_the_folders_that_were_named(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    path = home / ".config/systemd/user/dreamd.service"
    for named, kept in (([one], one), ([], one), ([other], other)):
        assert install("--sandbox", "full", *named) == 0
        assert systemd_unit.named_in(path) == (kept,)
        assert f"-{kept}" in directives(path.read_text(), "ReadWritePaths")


def test_the_system_is_told_how_its_account_makes_the_folders_its_workspaces(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(systemd_unit, "SYSTEM_PATH", home / "system" / "dreamd.service")
    monkeypatch.setattr("daemon.cli.setup._may_install_for_the_system", lambda _: None)  # no root, and no account
    (home / "an agent").mkdir()
    assert install("--system", "--user", "agents", home / "an agent") == 0
    (said,) = [row for row in capsys.readouterr().out.splitlines() if " init " in row]
    assert said.startswith("next: sudo -u agents env XDG_STATE_HOME=/var/lib XDG_DATA_HOME=/var/lib ")
    assert said.endswith(f" init '{home}/an agent'")


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=12), max_size=3)
)
def test_the_folders_of_a_unit_are_read_back_as_they_were_named(names: list[str]) -> None:
    folders = tuple(Path("/srv") / name.replace("/", "_").replace("..", "_") for name in names)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "dreamd.service"
        systemd_unit.place(path, systemd_unit.system_unit(HERE, "dreamd", folders))
        assert systemd_unit.named_in(path) == tuple(Path(os.path.realpath(folder)) for folder in folders)


def test_printing_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install("--print") == 0
    assert capsys.readouterr().out.startswith("# Written by 'dreamd install-service'")
    assert install("--print", "--system", "--user", "agents") == 0
    assert "User=agents" in capsys.readouterr().out
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--system"], "--user NAME"),
        (["--user", "ada"], "goes with --system"),
        (["--system", "--user", "root"], "every file"),
        (["--system", "--user", "nobody-has-this-name"], r"no account|with sudo"),
        (["/nonexistent/agent"], "no folder"),
        (["--sandbox", "some"], "invalid choice"),
        (["--now"], r"no systemctl|does not run here"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError, match=message):
        install(*words)
    assert list(home.iterdir()) == []
