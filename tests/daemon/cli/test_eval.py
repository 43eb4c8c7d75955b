"""`dreamd eval` end to end, on a life of four days: every arm, and nothing of the user's is touched."""

import json
import os
from pathlib import Path

import pytest

from tests.daemon.evaluation.test_life import SMALL
from tests.support.running import Caller
from tests.support.scripted_model import ScriptedModel, in_turn


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL), encoding="utf-8")
    return path


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_every_arm_is_lived_and_measured_and_nothing_is_left_behind(
    dreamd: Caller, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state, home = tmp_path / "state", tmp_path / "temporary"
    home.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr("tempfile.tempdir", None)
    ended = dreamd("eval", "--life", small, "--json")
    assert ended.status == 0, ended.err
    assert not state.exists()
    assert everything(home) == set()
    found = ended.json
    assert (found["facts"], found["changing"], found["notes"], found["days"]) == (2, 1, 4, 4)
    arms = {arm["arm"]: arm for arm in found["arms"]}
    assert list(arms) == ["notes", "dream", "rewrite"]
    assert arms["notes"]["unsettled"] is None
    assert arms["dream"]["unsettled"] == 0.0
    for arm in arms.values():
        assert arm["figures"]["retention"]["mean"] == 1.0
        assert arm["judged"]["answers"] == {"port": 1.0, "steady 1": 1.0}
        assert arm["spent"]["calls"] == 0
    assert "stale" not in arms["notes"]["figures"]
    assert arms["rewrite"]["figures"]["stale"]["mean"] == 1.0  # both fit, and nothing tells them apart
    assert {(one["arm"], one["than"]) for one in found["differences"]} == {("dream", "notes"), ("dream", "rewrite")}
    assert ended.err.count("day 0 of 4") == 3


def test_the_table_names_every_figure_and_is_the_same_for_the_same_seed(dreamd: Caller, small: Path) -> None:
    ended = dreamd("eval", "--life", small, "--seed", 3)
    assert ended.status == 0, ended.err
    assert ended.out.splitlines()[0].endswith("4 days, 4 notes, 2 facts, 1 of which change")
    assert "the value that holds stands first in search" in ended.out
    assert "within 3,000 tokens" in ended.out


@pytest.mark.full
def test_a_model_is_asked_only_when_that_is_wanted_and_its_costs_are_named_before(
    dreamd: Caller, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ScriptedModel(in_turn("- Since today the shop is on 8455.")) as server:
        monkeypatch.setenv("DREAMD_MODEL__NAME", "openai/scripted")
        monkeypatch.setenv("DREAMD_MODEL__API_BASE", server.url)
        refused = dreamd("eval", "--life", small, "--model")
        assert refused.status == 2
        assert "about 9 calls" in refused.err
        assert "say --yes" in refused.err
        assert dreamd("eval", "--life", small, "--json").status == 0
        assert server.requests == []
        monkeypatch.setenv("DREAMD_MODEL__ON_FAILURE", "extractive")
        asked = dreamd("eval", "--life", small, "--model", "--yes", "--json")
        assert asked.status == 0, asked.err
        arms = {arm["arm"]: arm for arm in asked.json["arms"]}
        assert list(arms) == ["notes", "dream", "model", "rewrite"]
        assert [arms[name]["spent"]["calls"] for name in ("notes", "dream", "rewrite")] == [0, 0, 3]
        assert arms["model"]["spent"]["calls"] > 0
        assert arms["rewrite"]["judged"]["retention"] == {"port": 1.0, "steady 1": 0.0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tokens", 10), "10 tokens is impossible"),
        (("--seed", -1), "a seed of -1"),
        (("--model",), "--model needs one"),
        (("--life", os.devnull), "/dev/null"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(dreamd: Caller, words: tuple[str | int, ...], said: str) -> None:
    ended = dreamd("eval", *words)
    assert ended.status == 2
    assert said in ended.err
