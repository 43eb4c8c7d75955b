"""Functions on texts, settings and moments that come from outside: total, or a refusal that says what to do."""

import json
from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from state.errors import UnsupportedInstructionError, UsageError
from state.sessions.content import checked, tokens_of
from state.sessions.context import Strategy, assemble
from state.sessions.forgetting import instruction_of
from state.sessions.ids import promoted_id, working_id
from state.sessions.importance import score
from state.sessions.item import Item, Priority
from state.sessions.moments import after, seconds_between
from state.sessions.page import Wanted, page
from state.sessions.policies.by_name import POLICIES, policy_of, settings_of
from state.sessions.policies.ttl import Ttl
from state.sessions.search import ItemFilters, matching_items, search
from state.sessions.summarizing import Scope, summarize
from state.text.chunks import tokens
from state.text.words import content_terms
from tests.state.sessions.shelves import START, ListShelf, item

# Half characters, controls, marks and directions, beside ordinary words.
TEXTS = st.text(st.characters(), max_size=60) | st.sampled_from(
    [
        "../../etc/passwd",
        "a\x00b",
        "'; DROP TABLE items; --",
        "\u202eabc",
        "🙂" * 30,
        "ẞ",
        "İstanbul",
        "\ud800\udc00",
        "%_*?[",
        "\n",
    ]
)
MOMENTS = st.datetimes(timezones=st.just(UTC))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    st.sampled_from(sorted({key for name in POLICIES for key in settings_of(policy_of(name, {}))} | {"preset"}))
    | TEXTS
)
CONTENTS = st.lists(TEXTS, max_size=6)


def held(contents: list[str]) -> ListShelf:
    return ListShelf([item(seq, content=text, token_count=tokens_of(text)) for seq, text in enumerate(contents)])


@given(TEXTS, TEXTS, MOMENTS, st.sets(st.integers(1, 9)))
def test_an_id_is_one_printable_line_and_never_one_that_is_taken(
    session: str, content: str, now: datetime, numbers: set[int]
) -> None:
    base = working_id(session, content, now, lambda _: False)
    taken = {base if number == 1 else f"{base}-{number}" for number in numbers}
    name = working_id(session, content, now, taken.__contains__)
    assert name not in taken
    assert name.startswith("working_memory_")
    assert "\n" not in name
    assert name.encode().decode() == name
    assert promoted_id(name, now).startswith(f"memory_promoted_{name}_")


@given(st.integers(0, 200))
def test_without_a_gap_the_number_is_the_next(count: int) -> None:
    taken: set[str] = set()
    for _ in range(count):
        taken.add(working_id("s", "x", START, taken.__contains__))
    base = working_id("s", "x", START, lambda _: False)
    assert taken == set([base, *(f"{base}-{number}" for number in range(2, count + 1))][:count])


@given(TEXTS)
def test_content_is_taken_as_it_is_or_refused(text: str) -> None:
    assert tokens_of(text) >= 1
    try:
        assert checked(text) == text
    except UsageError:
        assert not text or any("\ud800" <= char <= "\udfff" for char in text)
    else:
        assert text.encode()


@given(TEXTS)
def test_an_instruction_is_understood_or_refused(text: str) -> None:
    try:
        instruction_of(text)
    except UnsupportedInstructionError as refused:
        said = str(refused)
    else:
        said = ""
    assert said.isprintable()


@given(st.sampled_from(list(POLICIES)), st.dictionaries(KEYS, ANYTHING, max_size=4))
@example("ttl", {"ttl_seconds": {"\x1f": None}})
@example("ttl", {"ttl_seconds": {"\u2028" * 200: None}})
def test_a_configuration_makes_a_policy_or_is_refused_by_a_key(name: str, config: dict[str, object]) -> None:
    try:
        policy = policy_of(name, config)
    except UsageError as refused:
        said = str(refused)
    else:
        said = policy.name
        assert policy_of(name, json.loads(json.dumps(settings_of(policy)))) == policy
    assert said.isprintable()
    assert len(said) < 400


@given(st.sampled_from(list(Priority)), st.integers(1, 10**9), MOMENTS, MOMENTS, TEXTS, st.none() | st.floats(1, 1e9))
def test_a_score_is_between_0_and_1_and_six_places_long(
    priority: Priority, accesses: int, made: datetime, now: datetime, text: str, ttl: float | None
) -> None:
    one = item(priority=priority, access_count=accesses, created_at=made, content=text)
    assert 0 <= score(one, now, ttl) <= 1
    assert score(one, now, ttl) == round(score(one, now, ttl), 6)


@given(st.integers(1, 30), st.integers(0, 30), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_score_falls_with_age_and_rises_with_use(accesses: int, more: int, early: float, late: float) -> None:
    first, last = (START + timedelta(seconds=seconds) for seconds in sorted((early, late)))
    one, used = item(access_count=accesses), item(access_count=accesses + more)
    assert score(one, first) >= score(one, last)
    assert score(used, first) >= score(one, first)


@given(MOMENTS, st.floats(-1e15, 1e15), MOMENTS)
def test_moments_stay_on_the_calendar(moment: datetime, seconds: float, other: datetime) -> None:
    moved = after(moment, seconds)
    assert (moved >= moment) if seconds >= 0 else (moved <= moment)
    assert seconds_between(moment, other) >= 0


@given(st.sampled_from(list(Priority)), MOMENTS, MOMENTS)
def test_extending_always_gives_time_until_the_calendar_ends(
    priority: Priority, ends: datetime, now: datetime
) -> None:
    one = item(priority=priority, expires_at=ends)
    extended = Ttl().extended(one, now)
    assert extended >= max(now, ends)
    assert extended > now or extended == datetime.max.replace(tzinfo=UTC)


@given(CONTENTS, TEXTS)
def test_a_search_finds_what_holds_the_query_and_ranks_it(contents: list[str], query: str) -> None:
    shelf = held(contents)
    found = search(shelf.content, query, ItemFilters())
    assert {one.item.seq for one in found} == {
        seq for seq, text in enumerate(contents) if query.casefold() in text.casefold()
    }
    assert all(0 <= one.relevance <= 1 for one in found)
    assert [one.relevance for one in found] == sorted((one.relevance for one in found), reverse=True)


@given(CONTENTS, TEXTS)
def test_remembering_gives_items_of_the_session_in_order(contents: list[str], prompt: str) -> None:
    shelf = held(contents)
    found = list(matching_items(shelf, prompt, ItemFilters(), START))
    assert [one.seq for one in found] == sorted((one.seq for one in found), reverse=True)
    assert all(one in shelf.content for one in found)


@given(st.lists(st.text(max_size=3), max_size=9, unique=True), st.integers(1, 4))
def test_the_pages_of_a_list_together_are_the_list(ids: list[str], limit: int) -> None:
    ids, read, cursor = [id_ for id_ in ids if id_], list[str](), ""
    while True:
        part = page(ids, Wanted(limit, cursor), str, len)
        assert len(part.items) <= limit
        read += part.items
        if part.next_cursor is None:
            break
        cursor = part.next_cursor
    assert read == ids


WORDS = st.sampled_from(
    "berry berries runs running Anna can't don't not won't hope hoping bus buses 8,000 user's Bonn €".split()
)
PHRASES = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


@given(st.lists(PHRASES, max_size=6), PHRASES)
def test_an_item_is_remembered_that_shares_a_word_however_it_is_bent(contents: list[str], prompt: str) -> None:
    found = matching_items(held(contents), prompt, ItemFilters(), START)
    assert {one.seq for one in found} == {
        seq
        for seq, text in enumerate(contents)
        if prompt.casefold() in text.casefold() or content_terms(prompt) & content_terms(text)
    }


@given(CONTENTS, st.integers(1, 60))
def test_a_summary_keeps_its_limit_and_names_its_sources(contents: list[str], limit: int) -> None:
    shelf = held(contents)
    summary = summarize(shelf, Scope(), limit, START)
    assert summary.tokens == tokens(summary.text) <= limit
    assert len(summary.text.splitlines()) >= len(summary.sources)
    assert all(f"[{place}] " in summary.text for place in range(1, len(summary.sources) + 1))
    assert summarize(ListShelf(list(reversed(shelf.content))), Scope(), limit, START) == summary


@given(CONTENTS, st.sampled_from(list(Strategy)), st.integers(1, 60))
def test_a_context_is_the_longest_beginning_that_fits(contents: list[str], strategy: Strategy, limit: int) -> None:
    shelf = held(contents)
    context = assemble(shelf, strategy, limit, START)
    everything: tuple[Item, ...] = assemble(shelf, strategy, 10**9, START).items
    assert context.tokens == sum(one.token_count for one in context.items) <= limit
    assert context.items == everything[: len(context.items)]
    rest = everything[len(context.items) :]
    assert not rest or context.tokens + rest[0].token_count > limit
