"""The measures tell a memory that has everything from one that has nothing, and intervals hold their figure."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from daemon.evaluation.life import Fact, Statement
from daemon.evaluation.measures import MEASURES, Found, Memory, difference, figure, outcomes
from daemon.evaluation.rewrite import most_important, text_of
from state.scratch import Note
from tests.support.working import AT, HOUR

OLD = Statement(0, "The shop listens on port 8410.", ("8410",))
NEW = Statement(3, "Since today the shop is on 8455.", ("8455",))
SHOP = Fact("shop", "Which port has the shop?", "Which had it before?", ("shop",), "ports", (OLD, NEW))
WIKI = Fact(
    "wiki", "Which port has the wiki?", "", ("wiki",), "ports", (Statement(1, "The wiki is on 9100.", ("9100",)),)
)
FACTS = (SHOP, WIKI)
TITLES = {measure.name: measure for measure in MEASURES}
shares = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def memory(lines: Sequence[str], now: Sequence[str], past: Sequence[str] = ()) -> Memory:
    """The same hits for every question."""
    hits, before = (tuple(map(Found, texts)) for texts in (now, past))
    ids = [fact.id for fact in FACTS]
    return Memory(tuple(lines), dict.fromkeys(ids, hits), dict.fromkeys(ids, before), dict.fromkeys(ids, tuple(now)))


def judged(name: str, one: Memory) -> dict[str, float]:
    return outcomes(TITLES[name], FACTS, one)


WIKI_TEXT = WIKI.current.text
BEST = memory([NEW.text, WIKI_TEXT], [NEW.text, OLD.text, WIKI_TEXT], [OLD.text, NEW.text])
NONE = memory([], [])


def test_a_memory_that_has_everything_has_the_best_of_each_figure_and_an_empty_one_the_worst() -> None:
    for name, measure in TITLES.items():
        best, none = (list(judged(name, one).values()) for one in (BEST, NONE))
        assert best, name
        assert set(best) == ({1.0} if measure.more or name == "lines" else {0.0}), name
        if measure.more and name != "apart":
            assert set(none) == {0.0}, name


def test_what_never_changed_cannot_be_superseded() -> None:
    for name in ("current_first", "older_first", "stale", "history"):
        assert set(judged(name, BEST)) == {"shop"}


def test_an_older_value_above_the_newer_one_and_in_the_document_is_seen() -> None:
    wrong = memory([OLD.text, NEW.text, WIKI_TEXT], [OLD.text, NEW.text], [NEW.text, OLD.text])
    assert judged("current_first", wrong) == {"shop": 0}
    assert judged("older_first", wrong) == {"shop": 0}
    assert judged("stale", wrong) == {"shop": 1}
    assert judged("lines", wrong) == {"shop": 2, "wiki": 1}
    assert judged("current_written", wrong) == {"shop": 1, "wiki": 1}


def test_without_a_document_nothing_is_said_of_one() -> None:
    bare = replace(BEST, lines=None)
    assert all(not judged(name, bare) for name in ("stale", "current_written", "lines"))
    assert judged("retention", bare) == {"shop": 1, "wiki": 1}


def test_what_stands_after_the_fifth_hit_is_not_retained_but_remembered() -> None:
    deep = memory([], [*(["It rained."] * 5), NEW.text, OLD.text])
    assert judged("retention", deep)["shop"] == 0
    assert judged("history", deep) == {"shop": 1}
    assert judged("current_first", deep) == {"shop": 1}


def test_facts_of_one_shape_that_are_merged_or_superseded_by_each_other_are_seen() -> None:
    assert judged("apart", BEST) == {"shop": 1, "wiki": 1}
    assert judged("apart", replace(BEST, replaced=((OLD.text, NEW.text),))) == {"shop": 1, "wiki": 1}
    assert judged("apart", replace(BEST, replaced=((OLD.text, WIKI_TEXT),))) == {"shop": 0, "wiki": 1}
    marked = {**BEST.now, "wiki": (Found(WIKI_TEXT, NEW.text),)}
    assert judged("apart", replace(BEST, now=marked)) == {"shop": 1, "wiki": 0}


@given(shares, st.integers(0, 5))
def test_an_interval_holds_its_mean_and_is_the_same_for_the_same_seed(values: list[float], seed: int) -> None:
    found = figure(values, seed)
    assert found is not None
    assert found == figure(values, seed)
    assert min(values) - 1e-9 <= found.low <= found.mean + 1e-9
    assert found.mean - 1e-9 <= found.high <= max(values) + 1e-9 or len(set(values)) > 1
    assert found.facts == len(values)


@given(shares, shares, st.integers(0, 5))
def test_a_difference_is_paired_and_turns_its_sign(ones: list[float], others: list[float], seed: int) -> None:
    one, other = (dict(zip(map(str, range(30)), values, strict=False)) for values in (ones, others))
    there, back = difference(one, other, seed), difference(other, one, seed)
    assert there is not None
    assert back is not None
    assert there.facts == min(len(one), len(other))
    assert abs(there.mean + back.mean) < 1e-9
    assert abs(there.low + back.high) < 1e-9
    same = difference(one, one, seed)
    assert same is not None
    assert (same.mean, same.low, same.high) == (0, 0, 0)


def test_of_nothing_there_is_no_figure() -> None:
    assert figure([], 1) is None
    assert difference({"a": 1.0}, {"b": 1.0}, 1) is None


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from([0.2, 0.5, 0.9])), max_size=40), st.integers(0, 400))
def test_the_rewriting_without_a_model_keeps_what_weighs_most_within_its_budget(
    said: list[tuple[int, float]], budget: int
) -> None:
    notes = [Note(f"note {number} on day {at}", AT + at * HOUR, weight) for at, (number, weight) in enumerate(said)]
    rewrite = most_important(budget)
    kept = rewrite(notes[:20], notes[20:])
    assert len(text_of(kept)) <= budget
    assert [note.at for note in kept] == sorted(note.at for note in kept)
    assert rewrite(kept, notes[-1:] if notes and notes[-1] in kept else []) == kept
    left = [note for note in notes if note not in kept]
    if kept and left:  # nothing that weighs more than all that is kept is left out, if it had room
        room = budget - len(text_of(kept))
        assert all(len(note.text) + 3 > room for note in left)
