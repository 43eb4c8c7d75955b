"""What a turn is worth, by its words and its speaker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Kind
from state.crystals.salience import salience
from state.trust import Trust
from tests.support.cases import cases

CASES = cases(__file__)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I prefer tabs and short answers.", Kind.PREFERENCE),
        ("Please never push to main.", Kind.PREFERENCE),
        ("We decided to use PostgreSQL.", Kind.FACT),
        ("The migration must be ready by Friday.", Kind.GOAL),
        ("My goal is a P2P bridge without a relay.", Kind.GOAL),
        ("My sister Ada runs the lab.", Kind.RELATIONSHIP),
        ("Every release I run make check first.", Kind.TASK_PATTERN),
        ("It turns out that the cache was stale.", Kind.INSIGHT),
        ("Yesterday the relay fell over.", Kind.EPISODE),
        ("The port is 8080.", Kind.FACT),
        ("The API uses REST endpoints.", Kind.FACT),
        ("What a day!", Kind.GENERAL),
    ],
)
def test_the_owners_words_name_the_kind(text: str, kind: Kind) -> None:
    assert salience(text, Trust.OWNER).kind is kind


# In nine languages: a preference, a goal with a date, a decision, a person, a finding, a goal, a habit, an event, and
# what only says what something is.
KINDS = (
    (Kind.PREFERENCE, 0.75), (Kind.GOAL, 0.8), (Kind.FACT, 0.75), (Kind.RELATIONSHIP, 0.65), (Kind.INSIGHT, 0.7),
    (Kind.GOAL, 0.65), (Kind.TASK_PATTERN, 0.6), (Kind.EPISODE, 0.5), (Kind.FACT, 0.45),
)  # fmt: skip
SAID: dict[str, list[str]] = cases(__file__)["SAID"]


@pytest.mark.parametrize(("remember", "thanks", "asked"), CASES["nine_languages_remember_thank_and_ask"])
def test_nine_languages_remember_thank_and_ask(remember: str, thanks: str, asked: str) -> None:
    importance = [salience(text, Trust.OWNER).importance for text in (remember, thanks, asked)]
    assert importance == [0.9, 0.3, 0.55]


def test_a_wish_outweighs_talk_and_talk_outweighs_thanks() -> None:
    wish, talk, thanks = (
        salience(text, Trust.OWNER).importance for text in ("I prefer tabs.", "The port is 8080.", "ok, thanks!")
    )
    assert wish > talk > thanks


@pytest.mark.parametrize("trust", [Trust.TOOL, Trust.WEB])
def test_tools_and_pages_have_no_preferences(trust: Trust) -> None:
    found = salience("Remember that I prefer tabs by Friday.", trust)
    assert (found.kind, found.importance) == (Kind.GENERAL, 0.2)


@given(st.text(max_size=300), st.sampled_from(Trust))
def test_importance_stays_within_its_speakers_bounds(text: str, trust: Trust) -> None:
    low, high = {Trust.OWNER: (0.3, 0.9), Trust.AGENT: (0.25, 0.65)}.get(trust, (0.2, 0.2))
    assert low <= salience(text, trust).importance <= high


def test_remember_outweighs_everything_the_owner_says() -> None:
    told = salience("Remember that the staging host is ada-2.", Trust.OWNER)
    assert (told.kind, told.importance) == (Kind.FACT, 0.9)
    assert salience("Remember that I prefer tabs.", Trust.OWNER).kind is Kind.PREFERENCE
    assert salience("Remember that the host is ada-2.", Trust.AGENT).importance < 0.9


@pytest.mark.parametrize("language", SAID)
def test_nine_languages_have_the_same_kinds_and_importance(language: str) -> None:
    found = [salience(text, Trust.OWNER) for text in SAID[language]]
    assert [(one.kind, one.importance) for one in found] == list(KINDS)
