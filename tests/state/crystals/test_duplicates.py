"""When two crystals are one memory, which one is shown, and what it takes over."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from state.crystals.crystal import Crystal, Origin, folded_digest
from state.crystals.duplicates import are_one_memory, asked_word_for_word, canonical, with_duplicate
from state.trust import Trust

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SAID = Crystal("Ada prefers tea over coffee", Origin.SESSION, AT, speaker="Ada")
A, B = (Crystal(text, Origin.SCRATCH, AT) for text in "ab")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (SAID, replace(SAID, text="ada prefers  TEA\nover coffee", speaker="ada", origin=Origin.SCRATCH), True),
        (SAID, replace(SAID, speaker="Bob"), False),
        (SAID, replace(SAID, text="Ada prefers coffee over tea"), False),
        (SAID, replace(SAID, text="Ada prefers tea over coffee!"), False),
        (SAID, replace(SAID, origin=Origin.LINE), False),
        (SAID, replace(SAID, origin=Origin.SEED), False),
        (SAID, replace(SAID, origin=Origin.DREAM), False),
        (replace(SAID, origin=Origin.DREAM), replace(SAID, origin=Origin.DREAM), True),
    ],
    ids=["spelt otherwise", "Bob", "turned", "a mark", "left", "seed", "found", "both found"],
)
def test_only_equal_texts_of_one_speaker_that_were_said_are_one_memory(
    one: Crystal, other: Crystal, *, is_same: bool
) -> None:
    is_equal = folded_digest(one.text, one.speaker) == folded_digest(other.text, other.speaker)
    assert (is_equal and are_one_memory(one, other)) is (is_equal and are_one_memory(other, one)) is is_same


@pytest.mark.parametrize(
    ("stays", "leaves"),
    [
        (replace(A, trust=Trust.OWNER, importance=0.1), replace(B, importance=0.9)),
        (replace(A, importance=0.5), replace(B, importance=0.3)),
        (replace(A, created_at=AT - DAY), replace(B, created_at=AT + DAY)),
        (replace(A, id="0" * 31 + "a"), replace(B, id="0" * 31 + "b")),
    ],
    ids=["trust", "importance", "age", "id"],
)
def test_the_more_trusted_then_the_more_important_then_the_elder_stands_for_both(
    stays: Crystal, leaves: Crystal
) -> None:
    assert canonical(leaves, stays, ()) == canonical(stays, leaves, ()) == (stays, leaves)
    kept = canonical(leaves, stays, {leaves.id})  # a pointer leads to it
    assert kept == ((leaves, stays) if stays.trust is leaves.trust else None)


def test_a_survivor_of_equals_names_its_parent_and_takes_over_what_was_made_of_it() -> None:
    stays = replace(A, importance=0.6, accesses=2, last_accessed_at=AT, parents=("p",))
    twin = replace(B, importance=0.9, accesses=3, last_accessed_at=AT + DAY, created_at=AT - DAY)
    assert with_duplicate(stays, twin) == replace(
        stays, importance=0.9, accesses=5, last_accessed_at=AT + DAY, parents=("p", twin.id)
    )
    again = replace(stays, parents=(twin.id,))
    assert with_duplicate(again, twin).parents == (twin.id,)


@pytest.mark.parametrize(
    ("used", "twin_used", "said", "later"),
    [
        (None, None, AT - DAY, None),
        (None, None, AT, None),
        (None, None, AT + DAY, AT + DAY),
        (AT + 2 * DAY, None, AT + DAY, AT + 2 * DAY),
        (AT, AT + 3 * DAY, AT + DAY, AT + 3 * DAY),
    ],
)
def test_a_survivor_is_as_fresh_as_the_later_of_both(
    used: datetime | None, twin_used: datetime | None, said: datetime, later: datetime | None
) -> None:
    twin = replace(B, created_at=said, last_accessed_at=twin_used)
    assert with_duplicate(replace(A, last_accessed_at=used), twin).last_accessed_at == later


def test_an_agent_s_echo_lends_its_weight_to_the_owners_word_and_is_no_parent_of_it() -> None:
    word, echo = replace(A, trust=Trust.OWNER, importance=0.4), replace(B, importance=0.9, accesses=2)
    assert with_duplicate(word, echo) == replace(word, importance=0.9, accesses=2)
    tools = replace(A, trust=Trust.TOOL), replace(B, trust=Trust.TOOL, importance=0.9)
    assert with_duplicate(*tools) == replace(tools[0], importance=0.9, parents=(tools[1].id,))


@pytest.mark.parametrize("trust", [Trust.TOOL, Trust.WEB])
def test_a_page_gives_the_owners_word_nothing_and_takes_nothing_from_it(trust: Trust) -> None:
    word, echo = replace(A, trust=Trust.OWNER, importance=0.4), replace(B, trust=trust, importance=1.0, accesses=9)
    assert with_duplicate(word, echo) == word


def test_words_are_asked_for_as_they_stand() -> None:
    assert asked_word_for_word("who said: the PORT  is 80?", "The port is 80")
    assert not asked_word_for_word("port 80", "The port is 80")
