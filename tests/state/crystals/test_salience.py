"""What a turn is worth, by its words and its speaker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Kind
from state.crystals.salience import Salience, salience
from state.trust import Trust
from tests.support.cases import cases

CASES = cases(__file__)
# In nine languages: a preference, a goal with a date, a decision, a person, a finding, a goal, a habit, an event, and
# what only says what something is.
KINDS = (
    (Kind.PREFERENCE, 0.75), (Kind.GOAL, 0.8), (Kind.FACT, 0.75), (Kind.RELATIONSHIP, 0.65), (Kind.INSIGHT, 0.7),
    (Kind.GOAL, 0.65), (Kind.TASK_PATTERN, 0.6), (Kind.EPISODE, 0.5), (Kind.FACT, 0.45),
)  # fmt: skip
SAID: dict[str, list[str]] = CASES["SAID"]


@pytest.mark.parametrize("language", SAID)
def test_nine_languages_have_the_same_kinds_and_importance(language: str) -> None:
    found = [salience(text, Trust.OWNER) for text in SAID[language]]
    assert [(one.kind, one.importance) for one in found] == list(KINDS)


@pytest.mark.parametrize(("remember", "thanks", "asked"), CASES["nine_languages_remember_thank_and_ask"])
def test_nine_languages_remember_thank_and_ask(remember: str, thanks: str, asked: str) -> None:
    importance = [salience(text, Trust.OWNER).importance for text in (remember, thanks, asked)]
    assert importance == [0.9, 0.3, 0.55]


@pytest.mark.parametrize(
    ("text", "trust", "kind", "importance"),
    [
        ("Please never push to main.", Trust.OWNER, Kind.INSTRUCTION, 0.8),
        ("The migration must be ready by Friday.", Trust.OWNER, Kind.GOAL, 0.8),
        ("The release is due by 5 May.", Trust.OWNER, Kind.GOAL, 0.8),
        ("The API uses REST endpoints.", Trust.OWNER, Kind.FACT, 0.45),
        ("What a day!", Trust.OWNER, Kind.GENERAL, 0.45),
        ("Remember that the staging host is ada-2.", Trust.OWNER, Kind.FACT, 0.9),
        ("Remember that I prefer tabs.", Trust.OWNER, Kind.PREFERENCE, 0.9),
        ("Remember that the host is ada-2.", Trust.AGENT, Kind.FACT, 0.35),
        ("Deployed the API to staging.", Trust.AGENT, Kind.TASK_PATTERN, 0.375),
        ("- Deployed the API yesterday.", Trust.AGENT, Kind.TASK_PATTERN, 0.375),
        ("Deployed the API yesterday.", Trust.OWNER, Kind.EPISODE, 0.5),
        ("Deployed the API, since I prefer it.", Trust.AGENT, Kind.PREFERENCE, 0.562),
        ("Is the port 8080?", Trust.AGENT, Kind.GENERAL, 0.3),
        ("Do I prefer tea?", Trust.OWNER, Kind.PREFERENCE, 0.55),
        ("Yes, thanks!", Trust.AGENT, Kind.GENERAL, 0.25),
        ("Yes, thanks!", Trust.OWNER, Kind.GENERAL, 0.3),
        ("What a day! ", Trust.OWNER, Kind.GENERAL, 0.45),
        ("今日はいい日です！", Trust.OWNER, Kind.GENERAL, 0.45),
        ("Tea.", Trust.OWNER, Kind.GENERAL, 0.45),
        ("I’d rather have tea", Trust.OWNER, Kind.PREFERENCE, 0.75),
        ("Remember that I prefer tabs by Friday.", Trust.TOOL, Kind.GENERAL, 0.2),
        ("Remember that I prefer tabs by Friday.", Trust.WEB, Kind.GENERAL, 0.2),
    ],
)
def test_a_text_has_a_kind_and_an_importance(text: str, trust: Trust, kind: Kind, importance: float) -> None:
    found = salience(text, trust)
    assert (found.kind, found.importance) == (kind, importance)


@pytest.mark.parametrize("language", CASES["INSTRUCTIONS"])
def test_what_an_agent_is_to_do_whenever_it_is_asked_is_an_instruction(language: str) -> None:
    wish, *others = CASES["INSTRUCTIONS"][language]
    assert salience(wish, Trust.OWNER) == Salience(Kind.INSTRUCTION, 0.8)
    assert all(salience(other, Trust.OWNER).kind is not Kind.INSTRUCTION for other in others)


@given(st.text(max_size=300), st.sampled_from(Trust))
def test_importance_stays_within_its_speakers_bounds(text: str, trust: Trust) -> None:
    low, high = {Trust.OWNER: (0.3, 0.9), Trust.AGENT: (0.25, 0.65)}.get(trust, (0.2, 0.2))
    assert low <= salience(text, trust).importance <= high
