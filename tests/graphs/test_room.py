"""Who leaves a file that is too long, in which order, and the pointers that are left behind."""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs import talk
from graphs.room import (
    A_LITTLE,
    AHEAD_SHARE,
    AROUND_A_LINE,
    LASTING_SHARE,
    OLD_TEXT_SHARE,
    POINTED,
    VITAL_SHARE,
    fit,
    leaving,
    length_of,
)
from graphs.sheet import Sheet
from state.changes.change import CurrentLine
from state.crystals.crystal import Crystal, Origin
from state.document.document import parse
from state.document.operations import Operation, Why
from state.document.pointer import FIRST, MAX_POINTERS, parse_pointer, render_pointer
from state.document.sections import SectionName
from state.document.seed import appended
from state.dream import Dream, PointerLine, Snapshot, Usage
from state.reading import length_given
from state.secrets.policy import DEFAULT
from state.signals.felt import Felt
from state.signals.hormones import Feeling, Hormones
from state.trust import Trust
from tests.graphs.world import (
    BOND,
    CONTEXT,
    NICHE,
    NOW,
    PHENOTYPE,
    POINTERS,
    SKILLS,
    World,
    add,
    evict,
    memory,
    note,
    run,
    said,
    snapshot,
    standing,
    texts,
)
from tests.support.long_variants import examples

NAMES = ["apollo", "beagle", "cassini", "dragon", "encke", "fermi", "galileo", "hubble", "icarus", "juno"]


def line_about(name: str, more: int = 12) -> str:
    return f"The {name} probe needs {' '.join(f'{name}{number}' for number in range(more))}."


def fitted(read: Snapshot, library: World | None = None, *operations: Operation) -> Dream:
    sheet = talk.heard(read, [{"role": "assistant", "content": said(*operations)}] if operations else [])
    fit(sheet, library or World())
    return sheet.dream("scripted-1", Usage(), 0.0)


def gone(dream: Dream) -> list[str]:
    return [line.text for line, why in dream.left if why is Why.EVICTED and line.section is not POINTERS]


def of(*lines: CurrentLine, **changes: Any) -> Snapshot:
    sections: dict[str, list[str]] = {}
    for line in lines:
        sections.setdefault(line.section.name.lower(), []).append(line.text + (" 📌" if line.pinned else ""))
    return snapshot(memory(**sections), lines=lines, **{"budget": 100_000} | changes)


def line(number: int, section: SectionName = CONTEXT, importance: float = 0.5, **changes: Any) -> CurrentLine:
    made = CurrentLine(f"L{number}", section, line_about(f"probe{number}"), importance, Trust.AGENT, NOW)
    return replace(made, **changes)


def order(read: Snapshot) -> list[str]:
    return [one.id for one in leaving(Sheet(read))]


# The order


def test_what_is_past_leaves_first_then_the_least_important_and_of_those_the_oldest() -> None:
    lines = (
        line(1, importance=0.9, until="2026-03-11"), line(2, importance=0.5), line(3, importance=0.2),
        line(4, importance=0.2, born_at=NOW - timedelta(days=3)), line(5, importance=0.1),
    )  # fmt: skip
    assert order(of(*lines)) == ["L1", "L5", "L4", "L3", "L2"]


def test_what_names_a_day_ahead_what_lasts_and_the_owners_own_words_leave_last() -> None:
    lines = (
        line(1, importance=0.1, until="2026-03-26"), line(2, importance=0.2, until="2031-03-27"),
        line(3, BOND, 0.1), line(4, PHENOTYPE, 0.2), line(5, importance=0.0), line(6, importance=0.9),
        line(7, importance=0.0, until="2026-03-12"), line(8, importance=0.3, text="The lunch is on 2 April."),
    )  # fmt: skip
    assert order(of(*lines, handwritten=("L5",))) == ["L6", "L3", "L4", "L7", "L1", "L2", "L8", "L5"]


def test_pins_pointers_and_what_is_counted_stay() -> None:
    lines = (line(1, pinned=True), line(2, POINTERS), line(3, SKILLS), line(4, NICHE), line(5))
    assert order(of(*lines)) == ["L5"]


@examples(100)
@given(st.integers(0, 40_000), st.integers(0, 365), st.booleans(), st.lists(st.floats(0.0, 1.0), max_size=12))
def test_a_line_with_a_day_ahead_outlives_all_others_however_far_it_is(
    far: int,
    near: int,
    is_in_text: bool,  # noqa: FBT001 - drawn
    weights: list[float],
) -> None:
    day = f"{NOW + timedelta(days=near):%-d %B %Y}"
    lunch = line(99, importance=0.9, text=f"Lunch with Ada is on {day}.", born_at=NOW - timedelta(days=1))
    lease = line(99, importance=0.9, until=f"{NOW + timedelta(days=far):%Y-%m-%d}", born_at=NOW - timedelta(days=1))
    sections = (CONTEXT, BOND, PHENOTYPE)
    others = [line(n, sections[n % 3], weight) for n, weight in enumerate(weights)]
    assert order(of(lunch if is_in_text else lease, *others))[-1] == "L99"


def test_lines_with_a_day_ahead_push_out_no_others_beyond_their_share() -> None:
    dated = [line(n, importance=0.1 + n / 1_000, until="2030-01-01") for n in range(1, 31)]
    plain = [line(n, importance=0.8) for n in range(31, 36)]
    budget = 20 * length_of(line(10))
    left = set(gone(fitted(of(*dated, *plain, budget=budget))))
    assert not left & {one.text for one in plain}
    held = int(AHEAD_SHARE * budget / length_of(line(10)))
    assert not left & {one.text for one in dated[-held:]}  # the most important ones


def test_what_lasts_is_kept_within_its_share_only() -> None:
    many, work = [line(n, BOND, 0.1) for n in range(1, 20)], [line(n, importance=0.9) for n in range(20, 25)]
    share = sum(map(length_of, many)) / LASTING_SHARE
    assert order(of(*many, *work, budget=int(share) + 10))[:5] == [one.id for one in work]
    assert set(order(of(*many, *work, budget=int(share) - 100))[:19]) == {one.id for one in many}


def test_what_tells_of_what_was_felt_weighs_up_to_double() -> None:
    lines = (
        line(1, text="The deploy failed with an error again.", importance=0.4),
        line(2, text="Anna thanked the agent.", importance=0.4), line(3, text="The office has two doors."),
    )  # fmt: skip
    assert order(of(*lines)) == ["L1", "L2", "L3"]
    failing = Felt(((Feeling.ERROR, "the deploy failed"),), Hormones(0.15, 0.9, 0.2, NOW))
    assert order(of(*lines, felt=failing)) == ["L2", "L3", "L1"]


def test_what_matters_fades_with_its_age() -> None:
    old, new = line(1, importance=0.7, born_at=NOW - timedelta(days=30)), line(2)
    assert order(of(old, new)) == ["L1", "L2"]
    assert order(of(replace(old, born_at=NOW - timedelta(hours=1)), new)) == ["L2", "L1"]


def test_of_two_lines_that_are_alike_the_older_leaves_before_what_matters_less() -> None:
    old = line(1, importance=0.7, text="The deploy host is atlas at port 2222.", born_at=NOW - timedelta(hours=1))
    new, other = line(2, text="The deploy host atlas moved to port 2022."), line(3, importance=0.6)
    assert order(of(old, new, other)) == ["L1", "L2", "L3"]
    assert order(of(replace(old, text=line_about("beagle")), new, other)) == ["L2", "L3", "L1"]


def test_what_this_dream_wrote_stays_until_a_third_of_the_memory_has_left_for_it() -> None:
    read = replace(of(*(line(n, importance=0.9) for n in range(1, 19)), budget=3_300), evidence=(note(1, "x"),))
    pieces = [add(BOND, line_about(f"new{n}"), "N1") for n in range(18)]
    few = fitted(read, None, *pieces[:2])
    assert len(texts(few.after, BOND)) == 2
    many = fitted(read, None, *pieces)
    assert len([one for one in gone(many) if "new" not in one]) == 6
    assert len(texts(many.after, CONTEXT)) == 12


@pytest.mark.parametrize("days", [0, 20])
def test_of_a_small_memory_too_what_is_important_stays_in_a_burst(days: int) -> None:
    old = [
        replace(line(n), born_at=NOW - timedelta(days=days), importance=weight)
        for n, weight in enumerate((0.7, 0.95, 0.3), 1)
    ]
    burst = [note(n, line_about(f"new{n}")) for n in range(1, 131)]
    read = snapshot(memory(context=[one.text for one in old]), *burst, lines=tuple(old))
    left = gone(run(read).dream or pytest.fail("the dream is committed"))
    assert {one.text for one in old} & set(left) == {old[2].text}


def test_lines_of_high_importance_stay_within_their_share_and_only_while_nothing_newer_is_about_the_same() -> None:
    size = length_of(line(1))
    lines = [line(n, importance=0.9, born_at=NOW - timedelta(days=40 - n)) for n in range(20)]
    others = [line(n, importance=0.8) for n in range(20, 40)]
    assert order(of(*lines, *others, budget=int(4.5 * size / VITAL_SHARE)))[-4:] == [f"L{n}" for n in range(16, 20)]
    former = line(1, importance=0.95, text="The deploy host is atlas at port 2222.", born_at=NOW - timedelta(days=1))
    assert order(of(former, line(2, text="The deploy host is atlas at port 2022."), *others))[0] == "L1"


# The budget


def test_a_file_that_fits_is_left_alone() -> None:
    read = snapshot(memory(context=[line_about(name) for name in NAMES]))
    assert fitted(replace(read, budget=len(read.text) + 20)).changes == ()


@pytest.mark.parametrize("budget", [500, 700, 1_000, 1_200])
def test_the_file_fits_and_no_more_leaves_than_has_to(budget: int) -> None:
    dream = fitted(snapshot(memory(context=[line_about(name) for name in NAMES]), budget=budget))
    free = budget - length_given(dream.after)
    assert len(texts(dream.after, CONTEXT)) + len(gone(dream)) == 10
    assert 0 <= free < min(map(len, gone(dream))) + AROUND_A_LINE
    assert set(gone(dream)) <= {crystal.text for crystal in dream.crystals}


def test_a_file_of_pinned_lines_stays_too_long_and_says_so() -> None:
    dream = fitted(snapshot(memory(context=[line_about(name) + " 📌" for name in NAMES]), budget=900))
    assert dream.changes == ()
    (refusal,) = dream.refused
    assert (refusal.guard, refusal.figures) == (
        "budget", f"{length_given(dream.after):,} characters, the budget is 900; what is left is pinned or yours",
    )  # fmt: skip


def test_the_owners_own_text_does_not_push_every_line_out() -> None:
    own = "## My notes\n\n" + "Every word of this is mine. " * 120 + "\n"
    dream = fitted(snapshot(memory(context=[line_about(name, 40) for name in NAMES]) + own, budget=4_000))
    assert own in dream.after
    assert len(texts(dream.after, CONTEXT)) >= 2
    assert [one.guard for one in dream.refused] == ["budget"]


def test_text_from_before_the_first_dream_leaves_from_its_end_down_to_its_share() -> None:
    old = [f"Old note {n:02}: {line_about(f'moon{n:02}', 4)}" for n in range(30)]
    above = tuple(
        CurrentLine(f"T{n}", CONTEXT, one, 0.7, Trust.OWNER, NOW, above=True) for n, one in enumerate(old, 1)
    )
    text = appended("\n".join(f"- {one}" for one in old) + "\n", memory(context=[line_about("apollo")]))
    dream = fitted(snapshot(text, old_text=above, budget=1_200))
    assert [one for one in gone(dream) if one in old] == old[:9:-1]  # twenty in one dream
    assert all(f"- {one}\n" in dream.after for one in old[:10])
    few = "\n".join(f"- {one}" for one in old[:6]) + "\n"
    crowd = appended(few, memory(context=[line_about(name) for name in NAMES]))
    dream = fitted(snapshot(crowd, old_text=above[:6], budget=1_500))
    assert len(few) < OLD_TEXT_SHARE * 1_500
    assert dream.after.startswith(few)
    assert gone(dream) != []


@examples(60)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.floats(0.001, A_LITTLE))
def test_a_little_too_long_a_file_loses_the_least_used_pointers_before_a_line_and_asks_no_model(
    uses: list[int], share: float
) -> None:
    read, library = leading(uses, (line_about(name, 40) for name in NAMES))
    length = talk.begun(read).length
    read = replace(read, budget=math.ceil(length / (1 + share)))
    answered = talk.heard(read, [{"role": "assistant", "content": said()}])
    assert talk.reply(answered, 1) is None
    dream = fitted(read, library)
    assert length_given(dream.after) <= read.budget
    used = {f"Topic{n:02}": count for n, count in enumerate(uses)}
    left = [(used[one.text.split()[0]], length_of(one)) for one, _ in dream.left if one.section is POINTERS]
    stay = [used[one.split()[0]] for one in texts(dream.after, POINTERS)]
    assert not (gone(dream) and stay)
    assert not stay or max((count for count, _ in left), default=0) <= min(stay)
    assert sum(size for _, size in left[:-1]) < length - read.budget


@pytest.mark.parametrize("stand", [[], ["Sea → search: `tide`"]])
def test_the_pointers_that_a_model_asks_for_are_counted_before_it_is_let_go(stand: list[str]) -> None:
    asked = replace(evict(CONTEXT, "L1", "Moon"), keywords="apollo3")
    text = memory(context=[line_about(name, 5) for name in NAMES], pointers=stand)

    def heard(budget: int) -> Sheet:
        return talk.heard(snapshot(text, budget=budget), [{"role": "assistant", "content": said(asked)}])

    whole = length_given(fitted(snapshot(text), None, asked).after)
    dream = fitted(snapshot(text, budget=whole), None, asked)
    assert (length_given(dream.after), len(pointers_of(dream)), gone(dream)) == (whole, 1, [line_about("apollo", 5)])
    assert talk.reply(heard(whole), 1) is None
    further = talk.reply(heard(whole - 20), 1)
    assert further is not None
    assert f"the file has {whole:,} of" in further["content"]


# Pointers


@examples(100)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0.3, 0.79, POINTED, 0.95])), min_size=4, max_size=10),
    st.sets(st.integers(1, 10), max_size=4),
    st.sampled_from(["", "Apollo", "A long name for all that the probes of the moon need"]),
    st.integers(300, 2_000),
)
def test_a_pointer_is_shorter_than_its_line_and_unasked_only_to_what_is_important(
    ones: list[tuple[int, float]], asked: set[int], topic: str, budget: int
) -> None:
    lines = [
        line(n, importance=weight, text=line_about(NAMES[n - 1], more)) for n, (more, weight) in enumerate(ones, 1)
    ]
    wanted = [evict(CONTEXT, one.id, topic) for one in lines if int(one.id[1:]) in asked]
    dream = fitted(of(*lines, budget=budget), None, *wanted)
    for change in dream.changes:
        for pointer in change.come:
            (left,) = change.gone
            assert len(pointer.text) < len(left.text)
            assert left.importance >= POINTED or int(left.id[1:]) in asked


def pointers_of(dream: Dream) -> list[tuple[str, str, str]]:
    """Topic, keywords and crystal of each pointer that this dream made."""
    made = [(parse_pointer(one.text), one.crystal) for one in dream.came if one.section is POINTERS]
    return [(*parsed, crystal) for parsed, crystal in made if parsed is not None]


def test_no_line_leaves_for_pointers_that_are_beyond_their_share() -> None:
    text = memory(context=[line_about(name, 14) for name in NAMES])
    wanted = [
        replace(evict(CONTEXT, f"L{n}", f"What the probe {name} needs"), keywords=f"{name}1 {name}2 {name}3")
        for n, name in enumerate(NAMES[:4], 1)
    ]
    left = talk.heard(snapshot(text), [{"role": "assistant", "content": said(*wanted)}]).length
    dream = fitted(snapshot(text, budget=left + 200), None, *wanted)
    assert gone(dream) == [line_about(name, 14) for name in NAMES[:4]]
    assert 1 <= len(texts(dream.after, POINTERS)) < 4


def test_every_pointer_leads_to_its_crystal_which_the_dream_brings() -> None:
    text = memory(context=[line_about(name, 30) for name in NAMES])
    dream = fitted(snapshot(text, lines=standing(parse(text), POINTED), budget=2_400))
    library = World()
    library.upsert(dream.crystals)
    assert len(pointers_of(dream)) >= 1
    known = {crystal.id: crystal for crystal in dream.crystals}
    for _, keywords, crystal in pointers_of(dream):
        assert crystal in library.first(keywords, FIRST)
        assert known[crystal].origin is Origin.LINE


@pytest.mark.parametrize(("second", "count"), [("apollo", 1), ("beagle", 2)])
def test_one_pointer_leads_to_all_that_is_about_the_same(second: str, count: int) -> None:
    left = [line_about("apollo"), f"{line_about(second)[:-1]} and of a new antenna."]
    read = snapshot(memory(context=[*left, *map(line_about, NAMES[2:])]))
    dream = fitted(read, None, evict(CONTEXT, "L1", "The probe"), evict(CONTEXT, "L2", "The antenna"))
    library = World()
    library.upsert(dream.crystals)
    assert set(left) <= set(gone(dream))
    about = [keywords for _, keywords, _ in pointers_of(dream) if "apollo" in keywords or second in keywords]
    assert len(about) == count
    found = {one for keywords in about for one in library.first(keywords, FIRST)}
    assert {one.id for one in dream.crystals if one.text in left} <= found


def test_the_models_words_are_taken_if_they_lead_to_the_line() -> None:
    read = snapshot(memory(context=[line_about("apollo"), line_about("beagle")]))
    wanted = replace(evict(CONTEXT, "L1", "Moon"), keywords="apollo3 probe")
    assert [one[:2] for one in pointers_of(fitted(read, None, wanted))] == [("Moon", "apollo3 probe")]
    other = replace(wanted, keywords="nothing like it")
    (pointer,) = pointers_of(fitted(read, None, other))
    assert pointer[0] == "Moon"
    assert "apollo" in pointer[1]
    assert pointers_of(fitted(read, None, replace(wanted, pointer=False))) == []


def test_no_pointer_has_keywords_that_are_taken_for_a_secret() -> None:
    text = "The Wi-Fi password of the m14x kestrel is kept with harbour77 by Olu."
    topic, words = "Wi-Fi password", "m14x kestrel harbour77"
    assert DEFAULT.of(render_pointer(topic, words)) != render_pointer(topic, words)
    read = snapshot(memory(context=[text, line_about("beagle")]))
    dream = fitted(read, None, replace(evict(CONTEXT, "L1", topic), keywords=words))
    (pointer,) = texts(dream.after, POINTERS)
    assert (parse_pointer(pointer) or ("", ""))[0] == topic
    assert words not in pointer
    assert DEFAULT.of(pointer) == pointer


def test_keywords_are_chosen_again_until_the_search_finds_the_crystal() -> None:
    library = World(least_words=7)
    read = snapshot(memory(context=[line_about("apollo"), line_about("beagle")]))
    (pointer,) = pointers_of(fitted(read, library, evict(CONTEXT, "L1", "Apollo")))
    assert [len(keywords.split()) for keywords in library.asked] == [4, 5, 6, 7]
    assert pointer[1] == library.asked[-1]


def test_a_line_whose_crystal_no_search_finds_stays_where_it_was_with_a_refusal() -> None:
    text = memory(context=[line_about("apollo"), line_about("beagle"), line_about("cassini")])
    dream = fitted(snapshot(text), World(least_words=99), evict(CONTEXT, "L2", "Beagle"))
    assert texts(dream.after, CONTEXT) == texts(text, CONTEXT)
    assert [one.figures for one in dream.refused] == ["no words of L2 lead the search to it among 5; it stays"]
    assert dream.changes == ()


def leading(uses: Iterable[int], lines: Iterable[str]) -> tuple[Snapshot, World]:
    """A file of these lines and of pointers that were used so often, and a store in which all of them lead."""
    crystals = [Crystal(f"topic{n:02} quasar{n:02} nebula{n:02}", Origin.LINE, NOW) for n, _ in enumerate(uses)]
    used = [
        PointerLine(f"Topic{n:02}", f"quasar{n:02} nebula{n:02}", one.id, uses=count)
        for n, (one, count) in enumerate(zip(crystals, uses, strict=True))
    ]
    led = {render_pointer(one.topic, one.keywords): one.crystal for one in used}
    text = memory(pointers=list(led), context=list(lines))
    known = tuple(replace(one, crystal=led.get(one.text, "")) for one in snapshot(text).lines)
    library = World()
    library.upsert(crystals)
    return snapshot(text, lines=known, pointers=tuple(used), pointed=tuple(crystals), budget=40_000), library


def test_at_most_twenty_pointers_stay_and_the_least_used_retire() -> None:
    read, library = leading([0 if n in {3, 7} else 5 for n in range(20)], map(line_about, NAMES[:3]))
    dream = fitted(read, library, evict(CONTEXT, "L1", "Apollo"), evict(CONTEXT, "L2", "Beagle"))
    left = texts(dream.after, POINTERS)
    assert len(left) == MAX_POINTERS
    assert {one.text.split()[0] for one, _ in dream.left if one.section is POINTERS} == {"Topic03", "Topic07"}
    assert {"Apollo", "Beagle"} <= {one.split()[0] for one in left}


def pointed(keywords: str) -> tuple[Snapshot, World, Crystal]:
    crystal = Crystal(line_about("apollo"), Origin.LINE, NOW)
    text = memory(pointers=[f"Apollo → search: `{keywords}`"])
    lines = tuple(replace(one, crystal=crystal.id) for one in snapshot(text).lines)
    library = World()
    library.upsert([crystal])
    return snapshot(text, lines=lines, pointed=(crystal,)), library, crystal


def test_a_pointer_that_resolves_is_left_alone() -> None:
    read, library, _ = pointed("apollo1 apollo2")
    assert fitted(read, library).changes == ()
    assert library.asked == ["apollo1 apollo2"]


def test_a_pointer_that_no_longer_resolves_is_mended_under_its_topic() -> None:
    read, library, crystal = pointed("apollo1 quasar")
    library.upsert([Crystal(f"quasar {n} apollo1", Origin.SESSION, NOW) for n in range(9)])
    ((topic, keywords, behind),) = pointers_of(fitted(read, library))
    assert (topic, behind) == ("Apollo", crystal.id)
    assert keywords != "apollo1 quasar"
    assert crystal.id in library.first(keywords, FIRST)


def test_a_pointer_to_nothing_retires() -> None:
    read, _, _ = pointed("apollo1 apollo2")
    assert texts(fitted(replace(read, pointed=()), World()).after, POINTERS) == []


@pytest.mark.parametrize(
    "alike",
    [
        lambda n: f"Build {n} of the nightly pipeline ran green on runner {n % 7} and its artefacts were uploaded.",
        lambda n: " ".join(random.Random(n).sample("nightly pipeline ran green on every large runner".split(), 8)),
        lambda n: f"The {'red blue grey'.split()[n % 3]} ticket of shift {n % 5} moved to board {n % 2}",
    ],
)
def test_lines_that_look_alike_take_few_more_searches_than_others(alike: Callable[[int], str]) -> None:
    def tried(lines: Iterable[str]) -> float:
        library, said = World(), list(dict.fromkeys(lines))
        fitted(snapshot(memory(context=said), budget=1_500), library)
        return len(library.asked) / len(said)

    assert tried(map(alike, range(120))) <= 1.5
    assert tried(line_about(f"probe{n}") for n in range(120)) <= 1
