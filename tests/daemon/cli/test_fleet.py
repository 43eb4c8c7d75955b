"""`dreamd fleet`: what an operator types, and what is said."""

import json
import re
from pathlib import Path

import pytest

from daemon.cli.fleet import ACTS
from state.stores.fleet.registry import Tenants, Tokens
from state.stores.generations.generations import Generations
from tests.daemon.fleet.upkeep.conftest import fleet  # noqa: F401 - a fixture
from tests.daemon.fleet.upkeep.kept import Kept
from tests.support.running import Caller

pytestmark = pytest.mark.usefixtures("fleet")


def test_every_act_explains_itself(dreamd: Caller) -> None:
    listed = " ".join(dreamd("fleet", "--help").out.split())
    for act, operation in ACTS.items():
        ended = dreamd("fleet", *act.split(), "--help")
        assert (ended.status, f"usage: dreamd fleet {act} " in ended.out) == (0, True)
        assert f" {act} {operation.summary}" in listed
        assert "--json" in ended.out
        assert "--config" in ended.out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("", 2, "needs to know what to do"),
        ("fly", 2, "there is no 'dreamd fleet fly'"),
        ("tenant", 2, "'dreamd fleet tenant' lacks a word"),
        ("tenant add", 2, "required: TENANT"),
        ("tenant add Acme", 2, "'Acme' is no name of a tenant"),
        ("tenant add acme --dreams-per-day -1", 2, "--dreams-per-day -1 is impossible"),
        ("tenant add acme --usd-per-day nan", 2, "--usd-per-day nan is impossible"),
        ("tenant remove nobody --yes", 1, "there is no tenant 'nobody'"),
        ("workspace list nobody", 1, "there is no tenant 'nobody'"),
        ("workspace add nobody notes", 1, "there is no tenant 'nobody'"),
        ("token add nobody one --rights fly", 2, "'fly' is no right; name some of read, write, dream, manage"),
        ("token add nobody one --rights ,", 1, "there is no tenant 'nobody'"),
        ("token add nobody one --days 0", 2, "0 days are impossible"),
        ("import nobody notes /nowhere/file", 1, "there is no file /nowhere/file"),
        ("export nobody notes /nowhere/file", 2, "/nowhere is no folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(dreamd: Caller, words: str, status: int, said: str) -> None:
    ended = dreamd("fleet", *words.split())
    assert (ended.status, ended.out, ended.err.count("\n")) == (status, "", 1)
    assert said in ended.err


def test_without_a_database_the_key_is_named(dreamd: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DREAMD_FLEET__DATABASE")
    ended = dreamd("fleet", "status")
    assert ended.status == 2
    assert "fleet.database is not set" in ended.err


def test_the_status_of_an_empty_fleet_tells_what_is_missing_and_since_when(dreamd: Caller, fleet: Kept) -> None:  # noqa: F811
    ended = dreamd("fleet", "status")
    assert ended.status == 1
    assert re.findall("^problem +(.*?):", ended.out, re.MULTILINE) == ["no process lives"]
    shown = dreamd("fleet", "status", "--json")
    assert (shown.status, shown.json["counts"]["workspaces"], len(shown.json["problems"])) == (1, 0, 1)
    assert "postgresql://" not in ended.out + shown.out  # nor its password
    fleet.live()
    fleet.die()
    told = re.search("^problem +(since .*)$", dreamd("fleet", "status").out, re.MULTILINE)
    assert told is not None
    assert re.fullmatch(
        r"since [\d-]+ [\d:]+ UTC \(\d+ s\): no process lives: .*; start 'dreamd fleet serve' .*", told[1]
    )


def test_a_tenant_from_its_beginning_to_its_receipt(dreamd: Caller, fleet: Kept) -> None:  # noqa: F811 - the fixture
    assert "no tenant yet" in dreamd("fleet", "tenant", "list").err
    ended = dreamd("fleet", "tenant", "add", "acme", "--workspaces", 2, "--usd-per-day", "2.5")
    assert ended.out == "tenant acme, number 1: workspaces 2, usd_per_day 2.5\n"
    assert dreamd("fleet", "tenant", "add", "acme").status == 4
    assert dreamd("fleet", "tenant", "quota", "acme", "--usd-per-day", 0).status == 0
    quotas = dreamd("fleet", "tenant", "quota", "acme", "--json").json["quotas"]
    assert (quotas["workspaces"], quotas["usd_per_day"]) == (2, 0)
    for name in ("notes", "other"):
        assert dreamd("fleet", "workspace", "add", "acme", name).status == 0
    refused = dreamd("fleet", "workspace", "add", "acme", "third", "--json")
    assert refused.json["code"] == "QUOTA"
    fleet.live()
    acme = Tenants(fleet.database).find("acme")
    listed = dreamd("fleet", "workspace", "list", "acme")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["workspace", "notes", "other"]
    asked = dreamd("fleet", "tenant", "remove", "acme")
    assert (asked.status, asked.out) == (2, "")
    assert "--yes" in asked.err
    gone = dreamd("fleet", "workspace", "remove", "acme", "other", "--yes")
    assert "left         nothing" in gone.out
    assert re.search(r"^kept +PostgreSQL's log has it until [\d,]+ MiB more are written", gone.out, re.MULTILINE)
    assert "pages" not in gone.out
    assert [one["place"]["name"] for one in dreamd("fleet", "workspace", "list", "acme", "--json").json] == ["notes"]
    receipt = dreamd("fleet", "tenant", "remove", "acme", "--yes", "--json").json
    assert (receipt["workspaces"], receipt["objects_left"], receipt["rows_left"]) == (1, 0, 0)
    assert dreamd("fleet", "tenant", "list", "--json").json == []
    assert acme.id == 1


def test_a_token_is_shown_once_works_and_can_be_revoked(dreamd: Caller, fleet: Kept) -> None:  # noqa: F811
    dreamd("fleet", "tenant", "add", "acme")
    dreamd("fleet", "workspace", "add", "acme", "a")
    words = ("fleet", "token", "add", "acme", "agents", "--rights", "read,write", "--workspace", "a", "--days", 30)
    ended = dreamd(*words, "--workspace", "later")
    assert ended.err.splitlines()[0] == (
        "notice: tenant acme has no workspace later yet; the token is for it once it is made"
    )
    token = Tokens(fleet.database).authenticate(ended.out.strip())
    assert token is not None
    assert (token.workspaces, sorted(token.rights)) == (("a", "later"), ["read", "write"])
    assert token.expires_at is not None
    listed = dreamd("fleet", "token", "list", "acme")
    assert ended.out.strip().rpartition("_")[2] not in listed.out + json.dumps(
        dreamd("fleet", "token", "list", "acme", "--json").json
    )
    assert dreamd("fleet", "token", "revoke", "acme", "agents").status == 0
    assert Tokens(fleet.database).authenticate(ended.out.strip()) is None
    assert "revoked" in dreamd("fleet", "token", "list", "acme").out


def test_a_workspace_moves_into_the_fleet_and_back(dreamd: Caller, fleet: Kept, tmp_path: Path) -> None:  # noqa: F811
    home, file, back = tmp_path / "home", tmp_path / "one.db", tmp_path / "two.db"
    dreamd("init", home, "--no-daemon")
    dreamd("note", "tea", "-w", home)
    dreamd("export", home, "-o", file)
    dreamd("fleet", "tenant", "add", "acme")
    done = dreamd("fleet", "import", "acme", "laptop", file)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("workspace laptop of tenant acme (ws-1): no versions")
    found = fleet.places.find(1, "laptop")
    version = Generations(fleet.objects, found.place.prefix).version(found.generation)
    assert (version.tenant, version.workspace, found.bytes) == ("acme", "laptop", version.bytes)
    assert found.due_at is not None
    assert dreamd("fleet", "import", "acme", "laptop", file).status == 4
    assert dreamd("fleet", "export", "acme", "laptop", back).status == 0
    again = dreamd("fleet", "export", "acme", "laptop", back)
    assert (again.status, "nothing is overwritten" in again.err) == (2, True)
    assert "see 'dreamd fleet workspace list acme'" in dreamd("fleet", "export", "acme", "no", tmp_path / "x").err
    assert dreamd("import", back, tmp_path / "again", "--no-daemon").status == 0
    assert "tea" in (tmp_path / "again" / "memory" / "scratch.md").read_text()


def test_recovery_tells_what_it_would_do_and_does_it(dreamd: Caller, fleet: Kept) -> None:  # noqa: F811
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    for text in ("tea", "coffee"):
        fleet.commit(place, text)
    fleet.database.rows("DELETE FROM workspaces")
    shown = dreamd("fleet", "recover", "--list")
    assert (shown.status, "missing   row 0, store 2\n" in shown.out) == (0, True)
    assert "nothing was changed" in shown.err
    fleet.die()
    assert dreamd("fleet", "recover", "--json").json["counts"] == {"recovered": 1}
    assert dreamd("fleet", "recover").err.splitlines()[0] == "1 workspace: 1 current"
