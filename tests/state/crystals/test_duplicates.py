from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from state.crystals.crystal import Crystal, Origin
from state.crystals.duplicates import asked_word_for_word, canonical, same_memory, with_duplicate
from state.trust import Trust

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def _note(text: str, **changes: object) -> Crystal:
    return replace(Crystal(text, Origin.SCRATCH, AT), **changes)  # type: ignore[arg-type]


def test_only_equal_texts_of_one_speaker_are_one_memory() -> None:
    said = _note("Ada prefers tea over coffee", origin=Origin.SESSION, speaker="Ada")
    again = _note("ada prefers  TEA\nover coffee", speaker="ada", created_at=AT + DAY, context="Tea")
    assert same_memory(said, again)
    assert not same_memory(said, replace(again, speaker="Bob"))
    for other in ("Ada prefers coffee over tea", "Ada prefers tea over coffee!", "Ada likes tea over coffee"):
        assert not same_memory(said, _note(other, speaker="Ada"))


@pytest.mark.parametrize("origin", [Origin.EVICTED, Origin.SEED, Origin.DREAM])
def test_a_line_that_left_and_what_a_dream_found_never_merge_with_what_was_said(origin: Origin) -> None:
    assert not same_memory(_note("The port is 80"), _note("The PORT is 80", origin=origin))
    assert same_memory(_note("The port is 80", origin=Origin.DREAM), _note("The PORT is 80", origin=Origin.DREAM))


def test_the_more_trusted_then_the_more_important_then_the_elder_stands_for_both() -> None:
    owner, agent = _note("a", trust=Trust.OWNER, importance=0.1), _note("b", importance=0.9)
    assert canonical(agent, owner, ()) == (owner, agent)
    weak, elder, younger = (
        _note("c", importance=0.3),
        _note("d", created_at=AT - DAY),
        _note("e", created_at=AT + DAY),
    )
    assert canonical(weak, younger, ()) == (younger, weak)
    assert canonical(younger, elder, ()) == (elder, younger)


def test_a_copy_that_is_trusted_more_does_not_hide_behind_a_pointer_to_one_that_is_not() -> None:
    page, owner = _note("a", trust=Trust.WEB), _note("b", trust=Trust.OWNER)
    assert canonical(page, owner, {page.id}) is None


def test_a_survivor_of_equals_names_its_parent_and_takes_over_what_was_made_of_it() -> None:
    stays = _note("a", importance=0.6, accesses=2, last_accessed_at=AT, parents=("p",))
    twin = _note("b", importance=0.9, accesses=3, last_accessed_at=AT + DAY, created_at=AT - DAY)
    both = with_duplicate(stays, twin)
    assert (both.text, both.trust, both.parents) == ("a", Trust.AGENT, ("p", twin.id))
    assert (both.importance, both.accesses, both.last_accessed_at) == (0.9, 5, AT + DAY)


@pytest.mark.parametrize("trust", [Trust.TOOL, Trust.WEB])
def test_a_page_gives_the_owners_word_nothing_and_takes_nothing_from_it(trust: Trust) -> None:
    word = _note("a", trust=Trust.OWNER, importance=0.4)
    echo = _note("b", trust=trust, importance=1.0, accesses=9, created_at=AT + DAY)
    assert with_duplicate(word, echo) == word


def test_words_are_asked_for_as_they_stand() -> None:
    assert asked_word_for_word("who said: the PORT  is 80?", "The port is 80")
    assert not asked_word_for_word("port 80", "The port is 80")
