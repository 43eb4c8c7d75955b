"""Where the new lines of a dream stand: what counts most on top, and what is now true right above what was."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs import talk
from graphs.places import arrange
from state.document.document import render
from state.dream import Snapshot
from state.trust import Trust
from tests.graphs.world import BOND, CONTEXT, NOW, World, add, memory, note, run, said, snapshot, texts
from tests.support.long_variants import examples

NAMES = ["apollo", "beagle", "cassini", "dragon", "encke", "fermi", "galileo", "hubble"]
OLD, NEW = "The deploy host is atlas at port 2222.", "The deploy host atlas listens on port 2022."
UNLIKE = "Grace plays chess with her sister."
DAYS = ["", "2026-03-11", "2026-03-12", "2026-04-02", "2031-01-01"]


def about(name: str) -> str:
    """A line that shares no word with one of another name."""
    return f"{name.title()}1 has {name}2."


def by_model(read: Snapshot, answer: str) -> str:
    sheet = talk.heard(read, [{"role": "assistant", "content": answer}])
    arrange(sheet, World())
    return render(sheet.document)


weighed = st.lists(
    st.tuples(st.sampled_from([0.2, 0.5, 0.8, 1.0]), st.sampled_from(Trust), st.sampled_from(DAYS), st.booleans()),
    min_size=1,
    max_size=len(NAMES),
)


@examples(100)
@given(weighed)
def test_the_bond_has_the_owner_and_what_is_important_first_and_the_context_what_comes_first(
    ones: list[tuple[float, Trust, str, bool]],
) -> None:
    known = {about(name): one for name, one in zip(NAMES, ones, strict=False)}
    old = {text: one for text, one in known.items() if one[3]}
    new = [
        (note(at, text, trust=trust), weight, until)
        for at, (text, (weight, trust, until, is_old)) in enumerate(known.items(), 1)
        if not is_old
    ]

    def rank(text: str) -> float:
        weight, trust, _, is_old = known[text]
        return weight + (trust is Trust.OWNER and not is_old)

    for section, name in ((BOND, "bond"), (CONTEXT, "context")):
        in_order = (
            sorted(old, key=rank, reverse=True)
            if section is BOND
            else sorted(old, key=lambda one: known[one][2] or "9")
        )
        text = memory(**{name: in_order})
        lines = tuple(
            replace(one, importance=old[one.text][0], until=old[one.text][2]) for one in snapshot(text).lines
        )
        answer = [
            replace(add(section, one.text, one.id), importance=weight, until=until) for one, weight, until in new
        ]
        after = texts(by_model(snapshot(text, *(one for one, _, _ in new), lines=lines), said(*answer)), section)
        assert sorted(after) == sorted(known)
        if section is BOND:
            assert all(rank(one) >= rank(other) for one, other in pairwise(after))
            continue
        come = [one for one in after if one not in old]
        ahead = [known[one][2] for one in come if known[one][2] >= "2026-03-12"]
        assert [known[one][2] for one in come[: len(ahead)]] == sorted(ahead)


def test_without_a_model_the_newest_is_on_top_whatever_its_day() -> None:
    pieces = [replace(note(n, about(name)), at=NOW - timedelta(hours=n)) for n, name in enumerate(NAMES[:3], 1)]
    lunch = replace(note(4, "Lunch is on 2 April."), at=NOW - timedelta(hours=9))
    dream = run(snapshot(memory(context=[about("juno")]), *pieces, lunch)).dream
    assert dream is not None
    assert texts(dream.after, CONTEXT) == [*map(about, NAMES[:3]), "Lunch is on 2 April.", about("juno")]


@pytest.mark.parametrize(
    ("old", "new", "is_near"),
    [
        (OLD, NEW, True),
        (OLD, UNLIKE, False),
        (f"{OLD[:-1]} until 2 April.", f"{NEW[:-1]} from 3 May.", False),
        (f"{OLD[:-1]} since 2 April.", f"{NEW[:-1]} since 2 April.", True),
    ],
)
@pytest.mark.parametrize("has_model", [True, False])
def test_a_line_stands_right_above_the_older_one_that_it_is_most_like(
    old: str,
    new: str,
    is_near: bool,  # noqa: FBT001 - a case
    has_model: bool,  # noqa: FBT001 - a case
) -> None:
    text = memory(context=[about("apollo"), "The deploy waits.", old, about("beagle")])
    read = snapshot(text, new)
    if has_model:
        after = by_model(read, said(add(CONTEXT, new, "N1")))
    else:
        dream = run(read).dream
        assert dream is not None
        after = dream.after
    others = texts(text, CONTEXT)
    others.insert(others.index(old) if is_near else 0, new)
    assert texts(after, CONTEXT) == others


def test_meaning_says_what_is_near_where_words_do_not_and_no_line_comes_between() -> None:
    allergy, safe = "Ada must not eat hazelnuts.", "It turned out to be walnuts."
    text = memory(context=[about("apollo"), allergy, about("beagle")])
    meant = {allergy: (0.8, 0.6), safe: (1.0, 0.0), about("apollo"): (0.0, 1.0), about("beagle"): (0.0, 0.0, 1.0)}
    done = run(snapshot(text, safe), world=World(meanings=meant)).dream
    assert done is not None
    assert texts(done.after, CONTEXT) == [about("apollo"), safe, allergy, about("beagle")]
    # A line that belongs below the newer one and above the older one goes below both.
    pair = memory(bond=[NEW, OLD, about("beagle")])
    weights = {NEW: 0.9, OLD: 0.2, about("beagle"): 0.1}
    lines = [replace(one, importance=weights[one.text]) for one in snapshot(pair).lines]
    lines[0] = replace(lines[0], born_at=NOW)
    one = replace(add(BOND, UNLIKE, "N1"), importance=0.5)
    assert texts(by_model(snapshot(pair, UNLIKE, lines=tuple(lines)), said(one)), BOND) == [
        NEW, OLD, UNLIKE, about("beagle"),
    ]  # fmt: skip


def test_lines_of_the_owner_stay_where_they_stand() -> None:
    text = memory(bond=[about("apollo"), OLD, about("beagle")])
    lines = tuple(replace(one, importance=0.1) for one in snapshot(text).lines)
    read = snapshot(text, NEW, lines=lines, handwritten=("L2",))
    after = texts(by_model(read, said(add(BOND, NEW, "N1"))), BOND)
    assert after == [NEW, *texts(text, BOND)]  # beside no line of the owner's
