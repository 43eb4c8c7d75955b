"""`dreamd models` says which embedding model is there, and brings it; who has none is told so once."""

import sys
from pathlib import Path

import pytest

from state.stores.vectors.embedder import installed_sources
from state.stores.vectors.weights import PACKAGE
from tests.support.running import Caller

MODEL = installed_sources().package

pytestmark = pytest.mark.skipif(MODEL is None, reason=f"{PACKAGE} is not installed")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home of somebody who has no model."""
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "machine"))
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    return tmp_path


def test_without_a_model_init_doctor_and_the_list_name_the_command(dreamd: Caller, bare: Path) -> None:
    said = "'dreamd models install'"
    assert dreamd("init", bare / "here", "--no-daemon").err.count(said) == 1
    assert dreamd("doctor", bare / "here").out.count(said) == 1
    listed = dreamd("models")
    assert (listed.status, listed.out.count(said)) == (0, 1)
    assert dreamd("models", "--json").json == {"used": "", "models": []}


def test_it_is_installed_from_a_folder_and_found(dreamd: Caller, bare: Path) -> None:
    assert MODEL is not None
    assert dreamd("models", "install", "--from", MODEL).status == 0
    listed = dreamd("models", "--json").json
    assert listed["used"].startswith(str(bare / "data" / "dreamd" / "models"))
    assert "models install" not in dreamd("init", bare / "here", "--no-daemon").err
    assert "in use" in dreamd("models", "install", "--from", bare / "nowhere").out  # it is there: nothing is needed


def test_a_file_that_is_none_and_no_index_are_one_line(
    dreamd: Caller, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare / "x.whl").write_bytes(b"x")
    refused = dreamd("models", "install", "--from", bare / "x.whl")
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    refused = dreamd("models", "install")
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert "--from FILE" in refused.err
    assert dreamd("models", "--from", bare).status == 2
