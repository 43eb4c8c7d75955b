"""The configuration in force: each value with its origin and meaning, no secret, and what it asks about."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.entries import ConfigEntry, entries
from daemon.config.settings import Config, DreamSection, load
from daemon.workspace.adoption import init_workspace
from state.document.asking import Ask, Heard
from state.errors import ConfigError
from tests.support.running import Caller

HOME = {"HOME": "/nonexistent"}
KEY = "sk_live_51Hb9kQ2eZvKYlo2C8mTq4R7x"


def by_key(config: Config) -> dict[str, ConfigEntry]:
    return {one.key: one for one in entries(config)}


def test_without_a_file_every_key_is_the_default_and_says_what_it_means() -> None:
    found = by_key(load(None, HOME))
    assert all(one.value == one.default and one.origin == "default" for one in found.values())
    assert found["dream.ask"].meaning.endswith("need your yes ('dreamd review'); all: every change")
    assert found["limits.usd_per_day"].meaning.startswith("per workspace")
    goes_on = "connect.new", "dream.heard", "model.name"
    ends = ("nothing is said", "leave: only search finds them", "null: dream without a model")
    assert all(found[key].meaning.endswith(end) for key, end in zip(goes_on, ends, strict=True))
    assert {one.key for one in found.values() if not one.meaning} <= {
        f"{section}.{key}" for section in ("dream", "http", "model", "log") for key in Config().model_dump()[section]
    }


def test_each_value_names_the_layer_that_set_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("dream: {ask: all, idle_minutes: 3}\nmcp: {toolsets: [sessions]}\n")
    environment = {**HOME, "DREAMD_DREAM__IDLE_MINUTES": "7", "DREAMD_MCP": "{toolsets: [memory, sessions]}"}
    config = load(file, environment)
    found = by_key(config)
    assert config.file == file
    assert (found["dream.ask"].value, found["dream.ask"].origin) == ('"all"', str(file))
    assert found["dream.ask_days"].origin == "default"
    assert (found["dream.idle_minutes"].value, found["dream.idle_minutes"].default) == ("7.0", "20.0")
    assert found["dream.idle_minutes"].origin == "DREAMD_DREAM__IDLE_MINUTES"
    assert (json.loads(found["mcp.toolsets"].value), found["mcp.toolsets"].origin) == (
        ["memory", "sessions"],
        "DREAMD_MCP",
    )
    assert config.model_copy().origins == config.origins


def test_no_secret_is_among_the_values(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "dreamd").mkdir(parents=True)
    (state / "dreamd" / "allowed.json").write_text(json.dumps(["kept-word-1", "kept-word-2"]))
    environment = {
        **HOME,
        "XDG_STATE_HOME": str(state),
        "DREAMD_MODEL__API_BASE": f"https://ada:hunter2@models.example:8443/v1?api_key={KEY}#{KEY}",
        "DREAMD_MODEL__NAME": f"openai/{KEY}",
        "DREAMD_SECRETS__ALLOW": "[kept-word-3]",
        "DREAMD_HTTP__ALLOWED_HOSTS": f"['{KEY}']",
    }
    config = load(None, environment)
    found = by_key(config)
    assert found["model.api_base"].value == '"https://[redacted]@models.example:8443/v1?[redacted]"'
    assert found["secrets.allow"].value == '"3 texts"'
    assert found["secrets.allow"].origin == f"DREAMD_SECRETS__ALLOW and {state}/dreamd/allowed.json"
    told = repr(found)
    assert not any(word in told for word in ("hunter2", "ada:", KEY, "kept-word"))


@given(st.text(alphabet=st.sampled_from("ab/?#@: ") | st.characters(), max_size=20))
def test_of_no_address_is_a_login_told(text: str) -> None:
    address = f"https://user:pass-{text}@host/v1"
    config = Config.model_validate({"model": {"api_base": address}})
    shown = json.loads(by_key(config)["model.api_base"].value)
    assert "pass-" not in shown


def test_the_command_prints_one_key_a_section_or_all(dreamd: Caller, tmp_path: Path) -> None:
    here = init_workspace(tmp_path / "here").root
    assert dreamd("config", "dream.ask", "-w", here).out.startswith(
        'dream.ask                      "own"\n    default: '
    )
    every = dreamd("config", "-w", here, "--json").json["entries"]
    assert len(every) > 40
    file = tmp_path / "mine.yaml"
    file.write_text("dream: {ask: all}\n")
    (one,) = dreamd("config", "dream.ask", "-w", here, "--config", file, "--json").json["entries"]
    assert (one["value"], one["origin"]) == ('"all"', str(file))
    assert dreamd("config", "dream.mood", "-w", here).status == 1
    assert dreamd("config", "x" * 10_000, "-w", here).status == 1


def loaded(folder: Path, text: str) -> DreamSection:
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file, {}).dream


def test_the_owner_is_asked_about_their_own_lines_unless_they_want_more(tmp_path: Path) -> None:
    assert (loaded(tmp_path, "").ask, loaded(tmp_path, "").heard) == (Ask.OWN, Heard.MARK)
    strict = loaded(tmp_path, "dream: {ask: all, heard: ask}")
    assert (strict.ask, strict.heard) == (Ask.ALL, Heard.ASK)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dream: {heard: 'no'}", "dream.heard is 'no'"),
        ("dream: {ask: maybe}", "dream.ask is 'maybe', but input should be 'own' or 'all'"),
        ("dream: {approve: {add: ask}}", "no key 'dream.approve'"),
        ("dream: {ask_days: 0}", "dream.ask_days is 0"),
    ],
)
def test_an_error_names_the_key_and_what_it_may_be(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml: ") as raised:
        loaded(tmp_path, text)
    assert said in str(raised.value)


@pytest.mark.parametrize("given", ["10.0.0.7:7350", "https://10.0.0.7:7350", "http://10.0.0.7:7350/", "nonsense"])
def test_an_address_in_another_form_is_refused_as_no_process_would_know_it_again(given: str) -> None:
    with pytest.raises(ConfigError, match=r"DREAMD_FLEET__ADDRESS: .*http://10\.0\.0\.7:7350$"):
        load(None, {**HOME, "DREAMD_FLEET__ADDRESS": given})


@pytest.mark.parametrize("given", ["", "http://10.0.0.7:7350", "http://[fd00::7]:7350", "http://dreamd-1.fleet"])
def test_where_a_process_of_a_fleet_is_reached_is_a_host_and_perhaps_a_port(given: str) -> None:
    assert load(None, {**HOME, "DREAMD_FLEET__ADDRESS": given}).fleet.address == given
