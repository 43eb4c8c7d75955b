"""`dream.approve`: what a person writes, what it means, and errors that name the key."""

from pathlib import Path

import pytest

from daemon.config.settings import load
from state.document.approval import RULED, Heard, Policy
from state.document.document import SectionName
from state.document.operations import Action
from state.errors import ConfigError

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
