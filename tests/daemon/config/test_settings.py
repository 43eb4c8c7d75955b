"""The configuration in force: each value with its origin and meaning, no secret, and what dream.approve means."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from state.document.approval import RULED, Heard, Policy

from daemon.config.entries import ConfigEntry, entries
from daemon.config.settings import Config, load
from daemon.workspace.adoption import init_workspace
from state.document.operations import Action
from state.document.sections import SectionName
from state.errors import ConfigError
from tests.support.running import Caller

HOME = {"HOME": "/nonexistent"}
KEY = "sk_live_51Hb9kQ2eZvKYlo2C8mTq4R7x"


def by_key(config: Config) -> dict[str, ConfigEntry]:
    return {one.key: one for one in entries(config)}


def test_without_a_file_every_key_is_the_default_and_says_what_it_means() -> None:
    found = by_key(load(None, HOME))
    assert all(one.value == one.default and one.origin == "default" for one in found.values())
    meaning = "auto: follow the approve rules; propose: every line needs your approval ('dreamd review')"
    assert found["dream.mode"].meaning == meaning
    assert found["limits.usd_per_day"].meaning.startswith("per workspace")
    assert found["dream.approve.add"].meaning.startswith("auto: apply; ask: needs approval")
    assert "dream.approve.sections" in found
    assert {one.key for one in found.values() if not one.meaning} <= {
        f"{section}.{key}" for section in ("dream", "http", "model", "log") for key in Config().model_dump()[section]
    }


def test_each_value_names_the_layer_that_set_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("dream: {mode: propose, idle_minutes: 3, approve: {add: ask}}\nmcp: {toolsets: [sessions]}\n")
    environment = {**HOME, "DREAMD_DREAM__IDLE_MINUTES": "7", "DREAMD_MCP": "{toolsets: [memory, sessions]}"}
    config = load(file, environment)
    found = by_key(config)
    assert config.file == file
    assert (found["dream.mode"].value, found["dream.mode"].origin) == ('"propose"', str(file))
    assert found["dream.approve.add"].origin == str(file)
    assert found["dream.approve.revise"].origin == "default"
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
    assert dreamd("config", "dream.mode", "-w", here).out.startswith(
        'dream.mode                     "auto"\n    default: '
    )
    every = dreamd("config", "-w", here, "--json").json["entries"]
    assert len(every) > 40
    file = tmp_path / "mine.yaml"
    file.write_text("dream: {mode: propose}\n")
    (one,) = dreamd("config", "dream.mode", "-w", here, "--config", file, "--json").json["entries"]
    assert (one["value"], one["origin"]) == ('"propose"', str(file))
    assert dreamd("config", "dream.mood", "-w", here).status == 1
    assert dreamd("config", "x" * 10_000, "-w", here).status == 1


# ------------------------------------------------------------ dream.approve


BOND, PHENOTYPE, NICHE = SectionName.BOND, SectionName.PHENOTYPE, SectionName.NICHE


def loaded(folder: Path, text: str) -> Policy:
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file, {}).dream.policy


def rules(policy: Policy, section: SectionName, *, hand: bool = False) -> str:
    """What becomes of adding, revising, merging and evicting there."""
    return " ".join(policy.rule_of(action, [section], by_hand=hand, by_owner=False).approval for action in RULED)


def test_by_default_the_owner_is_asked_for_lines_by_hand_alone(tmp_path: Path) -> None:
    policy = loaded(tmp_path, "")
    for section in SectionName:
        for action in Action:
            for hand, approval in ((False, "auto"), (True, "ask")):
                assert policy.rule_of(action, [section], by_hand=hand, by_owner=False).approval == approval


def test_one_word_is_for_what_removes_and_changes_and_a_section_may_say_it_one_by_one(tmp_path: Path) -> None:
    policy = loaded(tmp_path, 'dream: {approve: {evict: ask, sections: {"The Niche": never, "The Bond": ask}}}')
    assert rules(policy, PHENOTYPE) == "auto auto auto ask"
    assert rules(policy, NICHE) == "auto never never never"
    assert rules(policy, BOND) == "auto ask ask ask"
    policy = loaded(tmp_path, 'dream: {approve: {sections: {"The Bond": {add: ask, merge: never}}}}')
    assert rules(policy, BOND) == "ask auto never auto"


def test_what_was_heard_is_marked_unless_its_owner_is_stricter(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").heard is Heard.MARK
    assert loaded(tmp_path, "dream: {heard: ask}").heard is Heard.ASK


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dream: {heard: 'no'}", "dream.heard is 'no'"),
        ("dream: {approve: {evict: maybe}}", "dream.approve.evict is 'maybe', but input should be 'auto', 'ask' or"),
        ("dream: {approve: {delete: ask}}", "no key 'dream.approve.delete'; here these are known: add, by_hand"),
        ("dream: {approve: ask}", "dream.approve is 'ask'"),
        (
            'dream: {approve: {sections: {"The Bnd": ask}}}',
            "The Bnd.[key] is 'The Bnd', but input should be 'The Phe",
        ),
        ('dream: {approve: {sections: {"The Bond": yes}}}', "sections.The Bond is True, but it is auto, ask, never"),
        ('dream: {approve: {sections: {"The Bond": maybe}}}', "The Bond is 'maybe', but it is auto, ask, never"),
        ('dream: {approve: {sections: {"The Bond": {evict: maybe}}}}', "sections.The Bond.evict is 'maybe'"),
        ('dream: {approve: {sections: {"The Bond": {delete: ask}}}}', "are known: add, evict, merge, revise"),
        ("dream: {approve: {sections: [ask]}}", "dream.approve.sections is ['ask']"),
        ("dream: {approve_days: 0}", "dream.approve_days is 0"),
    ],
)
def test_an_error_names_the_key_and_what_it_may_be(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml: ") as raised:
        loaded(tmp_path, text)
    assert said in str(raised.value)
