"""The doctor finds what is wrong, says what to do, and asks the network nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.upkeep.examine import check_stores
from daemon.workspace.adoption import init_workspace
from daemon.workspace.checks import Finding, Level
from daemon.workspace.searching import embed_waiting
from daemon.workspace.stores import open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin
from state.stores.database.opening import open_database
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from state.stores.vectors.embedder import Unavailable
from tests.support.running import Caller

pytestmark = pytest.mark.usefixtures("only_loopback")
Found = Callable[..., dict[str, Finding]]


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    workspace = init_workspace(tmp_path / "here")
    with open_exclusive(workspace, Config(), "test") as store:
        store.crystals.learn([Crystal("Ada prefers tea", Origin.SCRATCH, utc_now())])
    return workspace


@pytest.fixture
def found(dreamd: Caller, here: Workspace, monkeypatch: pytest.MonkeyPatch) -> Found:
    """The findings of the command by what they are about, with these variables."""

    def examined(*words: str | Path, **environment: str) -> dict[str, Finding]:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            ended = dreamd("doctor", here.root, "--json", *words)
        findings = [Finding(**{**one, "level": Level(one["level"])}) for one in ended.json["findings"]]
        assert ended.status == any(one.level is Level.PROBLEM for one in findings)
        return {one.about: one for one in findings}

    return examined


def test_a_sound_workspace_is_sound_in_every_respect(here: Workspace, found: Found) -> None:
    with open_exclusive(here, Config(), "test") as store:
        embed_waiting(store)
    findings = found()
    assert {one.about for one in findings.values() if one.level is not Level.OK} == set()
    assert {"config", "model", "permissions", "disk", "MEMORY.md", "state.db", "embeddings"} <= findings.keys()
    assert {"word index", "vector index", "dreams", "pointers"} <= findings.keys()
    assert "1 vector of 1 crystal" in findings["vector index"].what


def test_an_agent_that_is_installed_is_offered_as_a_model_and_checked_as_one(
    found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "codex (at most 5 calls and 60,000 tokens a dream" in found()["model"].advice
    named = found(DREAMD_MODEL__NAME="codex")["model"]
    assert (named.level, f"asked with {tmp_path}/codex" in named.what) == (Level.OK, True)
    assert found(DREAMD_MODEL__NAME="gemini")["model"].level is Level.PROBLEM


def test_that_there_is_no_model_is_said_once_and_nothing_else_is_left_out(here: Workspace, found: Found) -> None:
    missing = Embedding.given(Unavailable("no embedding model is here"))
    with open_exclusive(here, Config(), "test", embedding=missing) as store:
        store.notices.add("something else")
        findings = list(check_stores(store))
    assert [one.about for one in findings if one.what == "no embedding model is here"] == ["embeddings"]
    assert [one.about for one in findings if one.what == "something else"] == ["noticed"]


def test_a_wrong_configuration_is_named_and_the_rest_is_checked_all_the_same(found: Found, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("dream:\n  moode: auto\n")
    findings = found("--config", file)
    assert findings["config"].level is Level.PROBLEM
    assert "'dream.moode'" in findings["config"].what
    assert findings["state.db"].level is Level.OK


@pytest.mark.parametrize(
    ("name", "level", "said"),
    [
        ("no-such-provider/model", Level.PROBLEM, "knows no provider"),
        pytest.param("anthropic/claude-sonnet-4-20250514", Level.PROBLEM, "wants a key", marks=pytest.mark.full),
        pytest.param(
            "ollama/a-model-of-mine", Level.WARNING, "price and context window are not known", marks=pytest.mark.full
        ),
        pytest.param("openai/gpt-4o", Level.OK, "is known, and so is its key", marks=pytest.mark.full),
    ],
)
def test_a_model_is_checked_by_name_and_key(
    found: Found, monkeypatch: pytest.MonkeyPatch, name: str, level: Level, said: str
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    finding = found(HOME="/nonexistent", DREAMD_MODEL__NAME=name)["model"]
    assert (finding.level, said in finding.what) == (level, True), finding


def test_an_interrupted_dream_is_a_warning(here: Workspace, found: Found) -> None:
    with open_exclusive(here, Config(), "test") as store:
        store.ledger.begin("d1", "manual", utc_now())
    assert "a dream was interrupted" in found()["dreams"].what


def test_a_pointer_that_finds_nothing_is_a_warning(here: Workspace, found: Found) -> None:
    connection = open_database(here.database)
    (crystal,) = connection.execute("SELECT id FROM crystals").fetchone()
    connection.execute(
        "INSERT INTO pointers (keywords, topic, crystal, made_in) VALUES ('tea', 'Tea', ?, 1)", (crystal,)
    )
    connection.close()
    assert found()["pointers"].what == "all 1 resolve"
    with open_exclusive(here, Config(), "test") as store:
        store.crystals.learn([Crystal(f"tea tea tea {n}", Origin.SCRATCH, utc_now()) for n in range(9)])
    finding = found()["pointers"]
    assert finding.level is Level.WARNING
    assert "`tea` does not find 'Tea'" in finding.what


def test_a_busy_workspace_is_examined_as_far_as_it_goes(here: Workspace, found: Found) -> None:
    with acquire(here, "a long dream"):
        findings = found()
    assert findings["permissions"].level is Level.OK
    assert "a long dream" in findings["stores"].what
    assert findings["stores"].level is Level.WARNING
