"""A missing key is known without litellm, and only what litellm itself would say."""

import os
from pathlib import Path

import pytest

from daemon.models.keys import PROVIDERS, missing_key, variables_of
from daemon.models.known import load_litellm, missing_keys
from daemon.workspace.adoption import init_workspace
from tests.support.running import RUNNING, loaded
from tests.support.serving import noted

MODELS = {name: f"{name}/x" for name in PROVIDERS} | {"openai": "openai/gpt-4o", "cohere": "cohere/command-r"}


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {name for names in PROVIDERS.values() for name in names}:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_table_names_a_variable_of_litellms(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, litellm = MODELS[provider], load_litellm()
    first = missing_key(name, os.environ)
    monkeypatch.setenv(first, "a-key")
    assert missing_key(name, os.environ) == ""
    assert missing_keys(litellm, name) == []
    assert litellm.get_llm_provider(name)[1].startswith(provider.partition("_")[0])


def test_any_of_its_variables_is_enough_and_only_they_are_passed_on() -> None:
    for provider, names in PROVIDERS.items():
        for name in names:
            environment = {name: "a-key", "PATH": "/bin", "LD_PRELOAD": "x"}
            assert missing_key(f"{provider}/x", environment) == ""
            assert variables_of(f"{provider}/x", environment) == {name: "a-key"}
    assert missing_key("openai/x", {"OPENAI_BASE_URL": "http://127.0.0.1"}) == ""
    unknown = ("ollama/llama3", "gpt-4o", "bedrock/x", "claude-code", "gemini", "claude-code/haiku", "nobody/x")
    assert [missing_key(name, {}) for name in unknown] == [""] * len(unknown)
    keys = {"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b"}
    found = [set(variables_of(name, keys)) for name in ("gpt-4o", "claude-sonnet-4", "claude-code/haiku", "ollama/x")]
    assert found == [{"OPENAI_API_KEY"}, {"ANTHROPIC_API_KEY"}, {"ANTHROPIC_API_KEY"}, set()]


def test_a_dream_without_the_key_fails_before_litellm_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = init_workspace(tmp_path / "here")
    noted(workspace, ["Ada prefers tea"])
    monkeypatch.setenv("DREAMD_MODEL__NAME", "anthropic/claude-sonnet-4")
    modules = loaded(RUNNING.replace("== 0", "== 1"), "dream", str(workspace.root))
    assert "daemon.models.keys" in modules
    assert "litellm" not in modules
