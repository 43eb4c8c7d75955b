"""Functions on texts, settings and moments that come from outside: total, or a refusal that says what to do."""

import json
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.errors import UsageError
from state.sessions.checks import from_scale
from state.sessions.item import Item, promoted_id, score, tokens_of, working_id
from state.sessions.policies import POLICIES, Bounded, policy_of, settings_of
from state.sessions.selection import context_of, is_about, relevance, summary_of, visible_items
from state.text.chunks import tokens
from state.text.words import content_terms
from tests.state.sessions.items import HOUR, START, item, seqs

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
    assert seqs(visible_items(items, START)) == list(range(len(items)))[::-1]


def scored(
    content: str = "",
    priority: str = "medium",
    accesses: int = 1,
    age: timedelta = timedelta(),
    ttl: float | None = None,
) -> float:
    return score(accesses, age.total_seconds(), priority, len(content), ttl)


def test_each_term_counts_and_stops_at_its_end() -> None:
    assert scored("Meeting notes from today's standup", "high") == 0.4934  # .04 + .3 + .15 + .0034
    # .04 of one access, .15 of half the time that the priority gives, .2 of the weight, nothing of length
    halves = {"low": HOUR / 2, "medium": 2 * HOUR, "high": 6 * HOUR, "critical": 12 * HOUR}
    assert [scored(priority=one, age=age) for one, age in halves.items()] == [0.24, 0.29, 0.34, 0.39]
    assert scored("x" * 1000, "critical", 10) == 1.0
    assert scored("x" * 1000, "critical", 9) == 0.96
    assert scored("x" * 50_000, "critical", 10_000) == 1.0
    assert scored("x" * 1000, "critical", 10, 1000 * HOUR) == 0.7
    assert scored("x" * 1000, "critical", 10, HOUR, 7_200) == 0.85  # of a time to live of its own
    assert scored("x" * 1000, "critical", 10, -HOUR) == 1.0, (
        "a clock that was set back makes nothing fresher than new"
    )


def test_other_scales_become_ours() -> None:
    given = {"1/10": 0.1, "0/10": 0.0, "7.5/10": 0.75, "10/10": 1.0, 0.4: 0.4, "★": 0.3, "★★": 0.6, "★★★": 0.9}
    assert {importance: from_scale(importance) for importance in given} == given


@pytest.mark.parametrize(
    ("session", "content", "expected"),
    [
        (
            "user-session-123",
            "Meeting notes from today's standup",
            "working_memory_user-session-123-Meeting notes from t_20260312-143000",
        ),
        ("s", "Important info that needs", "working_memory_s-Important info that_20260312-143000"),
        ("../../etc", "a/b\\c\n\td\x00e\u202e", "working_memory_../../etc-a b c de_20260312-143000"),
        ("", "\ud800", "working_memory_-_20260312-143000"),
        ("s", "🙂" * 25, "working_memory_s-" + "🙂" * 20 + "_20260312-143000"),
    ],
)
def test_an_id_says_where_how_it_begins_and_when(session: str, content: str, expected: str) -> None:
    assert working_id(session, content, START) == expected
    assert promoted_id(expected, START) == f"memory_promoted_{expected}_20260312-143000"
