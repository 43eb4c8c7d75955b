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


def rule(policy: Policy, action: Action, section: SectionName = SectionName.CONTEXT, *, hand: bool = False) -> str:
    return policy.rule_of(action, [section], by_hand=hand, by_owner=False).approval


def test_by_default_the_owner_is_asked_for_lines_by_hand_alone(tmp_path: Path) -> None:
    policy = loaded(tmp_path, "")
    for section in SectionName:
        for action in Action:
            assert rule(policy, action, section) == "auto"
            assert rule(policy, action, section, hand=True) == "ask"


def test_one_word_is_for_what_removes_and_changes_and_other_sections_keep_theirs(tmp_path: Path) -> None:
    policy = loaded(tmp_path, 'dream: {approve: {evict: ask, sections: {"The Niche": never, "The Bond": ask}}}')
    assert rule(policy, Action.EVICT) == "ask"
    assert rule(policy, Action.REVISE) == "auto"
    assert [rule(policy, action, NICHE) for action in (Action.ADD, Action.REVISE)] == ["auto", "never"]
    assert [rule(policy, action, BOND) for action in (Action.ADD, Action.REVISE)] == ["auto", "ask"]
    assert rule(policy, Action.REVISE, PHENOTYPE) == "auto"


def test_what_was_heard_is_marked_unless_its_owner_is_stricter(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").heard is Heard.MARK
    assert loaded(tmp_path, "dream: {heard: ask}").heard is Heard.ASK
    assert loaded(tmp_path, "dream: {heard: leave, mode: propose}").heard is Heard.LEAVE
    with pytest.raises(ConfigError, match=r"dream\.heard is 'no'"):
        loaded(tmp_path, "dream: {heard: 'no'}")


def test_a_section_may_say_it_one_by_one(tmp_path: Path) -> None:
    policy = loaded(tmp_path, 'dream: {approve: {sections: {"The Bond": {add: ask, merge: never}}}}')
    assert [rule(policy, action, BOND) for action in RULED] == ["ask", "auto", "never", "auto"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("dream: {approve: {evict: maybe}}", ("dream.approve.evict is 'maybe'", "'auto', 'ask' or 'never'")),
        ("dream: {approve: {delete: ask}}", ("no key 'dream.approve.delete'", "by_hand", "sections")),
        ("dream: {approve: ask}", ("dream.approve is 'ask'",)),
        ('dream: {approve: {sections: {"The Bnd": ask}}}', ("dream.approve.sections", "'The Bnd'", "The Bond")),
        (
            'dream: {approve: {sections: {"The Bond": yes}}}',
            ("dream.approve.sections.The Bond is True, but it is auto, ask, never",),
        ),
        (
            'dream: {approve: {sections: {"The Bond": maybe}}}',
            ("dream.approve.sections.The Bond is 'maybe'", "ask, never"),
        ),
        (
            'dream: {approve: {sections: {"The Bond": {evict: maybe}}}}',
            ("dream.approve.sections.The Bond.evict is 'maybe'",),
        ),
        (
            'dream: {approve: {sections: {"The Bond": {delete: ask}}}}',
            ("The Bond.delete", "add, evict, merge, revise"),
        ),
        ("dream: {approve: {sections: [ask]}}", ("dream.approve.sections is ['ask']", "a valid dictionary")),
        ("dream: {approve_days: 0}", ("dream.approve_days is 0",)),
    ],
)
def test_an_error_names_the_key_and_what_it_may_be(tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, text)
    for part in ("config.yaml", *parts):
        assert part in str(raised.value), str(raised.value)
