"""Functions on texts, settings and moments that come from outside: total, or a refusal that says what to do."""

import json
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from state.errors import UsageError
from state.sessions.checks import checked_text
from state.sessions.item import WEIGHTS, Item, after, promoted_id, score, tokens_of, working_id
from state.sessions.policies import POLICIES, Bounded, policy_of, settings_of
from state.sessions.selection import context_of, is_about, relevance, standing, summary_of
from state.text.chunks import tokens
from state.text.words import content_terms
from tests.state.sessions.items import START, item, seqs

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


def held(contents: list[str]) -> list[Item]:
    return [item(seq, content=text, token_count=tokens_of(text)) for seq, text in enumerate(contents)]


@given(TEXTS, TEXTS, MOMENTS)
def test_an_id_is_one_printable_line(session: str, content: str, now: datetime) -> None:
    name = working_id(session, content, now)
    assert name.startswith("working_memory_")
    assert "\n" not in name
    assert name.encode().decode() == name
    assert promoted_id(name, now).startswith(f"memory_promoted_{name}_")


@given(TEXTS)
def test_content_is_taken_as_it_is_or_refused(text: str) -> None:
    assert tokens_of(text) >= 1
    try:
        assert checked_text("content", text, 1_000) == text
    except UsageError:
        assert not text or any("\ud800" <= char <= "\udfff" for char in text)
    else:
        assert text.encode()


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


@given(
    st.sampled_from(list(WEIGHTS)),
    st.integers(1, 10**9),
    st.floats(-1e12, 1e12),
    st.integers(0, 10**6),
    st.floats(1, 1e9),
)
def test_a_score_is_between_0_and_1_and_six_places_long(
    priority: str, accesses: int, age: float, length: int, ttl: float
) -> None:
    for scored in (score(accesses, age, priority, length, ttl), score(accesses, age, priority, length)):
        assert 0 <= scored <= 1
        assert scored == round(scored, 6)


@given(MOMENTS, st.floats(-1e15, 1e15))
def test_moments_stay_on_the_calendar(moment: datetime, seconds: float) -> None:
    moved = after(moment, seconds)
    assert (moved >= moment) if seconds >= 0 else (moved <= moment)


@given(CONTENTS, TEXTS)
def test_what_holds_the_query_is_relevant_and_nothing_else(contents: list[str], query: str) -> None:
    found = {one.seq: relevant for one in held(contents) if (relevant := relevance(one, query)) is not None}
    assert set(found) == {seq for seq, text in enumerate(contents) if query.casefold() in text.casefold()}
    assert all(0 <= relevant <= 1 for relevant in found.values())


WORDS = st.sampled_from(
    "berry berries runs running Anna can't don't not won't hope hoping bus buses 8,000 user's Bonn €".split()
)
PHRASES = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


@given(st.lists(PHRASES, max_size=6), PHRASES)
def test_an_item_is_remembered_that_shares_a_word_however_it_is_bent(contents: list[str], prompt: str) -> None:
    assert set(seqs(filter(is_about(prompt), held(contents)))) == {
        seq
        for seq, text in enumerate(contents)
        if prompt.casefold() in text.casefold() or content_terms(prompt) & content_terms(text)
    }


@given(CONTENTS, st.integers(1, 60))
def test_a_summary_keeps_its_limit_and_names_its_sources(contents: list[str], limit: int) -> None:
    items = held(contents)
    summary = summary_of(items, "all", limit, 0, Bounded(), START)
    assert summary.token_count == tokens(summary.text) <= limit
    assert len(summary.text.splitlines()) >= len(summary.items)
    assert all(f"[{place}] " in summary.text for place in range(1, len(summary.items) + 1))
    assert summary_of(items[::-1], "all", limit, 0, Bounded(), START) == summary


@given(CONTENTS, st.sampled_from(["recent", "important", "balanced"]), st.integers(1, 60))
def test_a_context_is_the_longest_beginning_that_fits(contents: list[str], strategy: str, limit: int) -> None:
    items = held(contents)
    context, everything = (context_of(items, strategy, most, START) for most in (limit, None))
    assert context.token_count == sum(one.token_count for one in context.items) <= limit
    assert context.items == everything.items[: len(context.items)]
    rest = everything.items[len(context.items) :]
    assert not rest or context.token_count + rest[0].token_count > limit
    assert seqs(standing(items, START)) == list(range(len(items)))[::-1]
