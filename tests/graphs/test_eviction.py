"""Fading lines become verified pointers, in their order, until the file fits; nothing else leaves."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from graphs.eviction import OLD_TEXT_SHARE, SHARES, evict, fading_order, room_for
from graphs.working_copy import WorkingCopy

from state.crystals.crystal import Crystal, Origin
from state.document.document import SectionName, parse
from state.document.operations import Operation, Why
from state.document.pointer import FIRST, MAX_POINTERS, parse_pointer
from state.document.seed import appended
from state.dream import CurrentLine, Dream, PointerLine, Snapshot, Usage
from state.signals.hormones import Hormones
from state.trust import Trust
from tests.graphs import world as worlds
from tests.graphs.world import BOND, CONTEXT, NICHE, NOW, PHENOTYPE, POINTERS, SKILLS, World, memory, snapshot, texts

NAMES = ["apollo", "beagle", "cassini", "dragon", "encke", "fermi", "galileo", "hubble", "icarus", "juno"]


def line_about(name: str, more: int = 12) -> str:
    return f"The {name} probe needs {' '.join(f'{name}{number}' for number in range(more))}."


def faded(read: Snapshot, library: World | None = None, operations: Sequence[Operation] = ()) -> Dream:
    copy = WorkingCopy(read, operations, ())
    evict(read, copy, operations, library or World())
    return copy.dream((), "scripted-1", Usage(), 0.0)


def weighed(text: str, importances: Sequence[float], **changes: object) -> Snapshot:
    read = snapshot(text, **changes)
    lines = tuple(replace(line, importance=value) for line, value in zip(read.lines, importances, strict=True))
    return replace(read, lines=lines)


def gone(dream: Dream) -> list[str]:
    return [death.text for death in dream.deaths if death.fate is Why.EVICTED]


# The budget


def test_a_file_that_fits_is_left_alone() -> None:
    read = snapshot(memory(context=[line_about(name) for name in NAMES]))
    dream = faded(replace(read, budget=len(read.text) + 20))
    assert dream.deaths == ()
    assert dream.pointers == ()


@pytest.mark.parametrize("budget", [1_000, 1_200, 1_500, 1_800])
def test_the_file_fits_and_no_more_leaves_than_has_to(budget: int) -> None:
    read = weighed(memory(context=[line_about(name) for name in NAMES]), [0.5] * 10, budget=budget)
    dream = faded(read)
    assert len(dream.after) <= budget
    lines = texts(parse(dream.after), CONTEXT)
    assert len(lines) + len(gone(dream)) == 10
    assert budget - len(dream.after) < 2.5 * len(line_about("beagle"))


def test_of_two_that_are_as_old_the_less_important_leaves_first_and_of_two_as_important_the_older() -> None:
    text = memory(context=[line_about(name) for name in NAMES])
    importances = [0.9, 0.2, 0.8, 0.2, 0.7, 0.6, 0.5, 0.4, 0.3, 0.9]
    left = gone(faded(weighed(text, importances, budget=1_200)))
    assert left[:3] == [line_about("beagle"), line_about("dragon"), line_about("apollo")]
    assert line_about("juno") not in left


def test_what_lasts_leaves_after_the_work_and_the_hormones_weigh_among_those_of_a_turn() -> None:
    lines = [
        CurrentLine("L1", BOND, "a", 0.45, Trust.AGENT, NOW),
        CurrentLine("L2", PHENOTYPE, "b", 0.5, Trust.AGENT, NOW),
        CurrentLine("L3", CONTEXT, "c", 0.9, Trust.AGENT, NOW),
        CurrentLine("L4", SectionName.GAPS, "d", 0.95, Trust.AGENT, NOW),
    ]
    calm = replace(snapshot(""), hormones=Hormones(0.15, 0.1, 0.2, NOW))
    loving = replace(calm, hormones=Hormones(0.15, 0.02, 0.9, NOW))
    winning = replace(calm, hormones=Hormones(0.9, 0.02, 0.2, NOW))
    assert [line.id for line in fading_order(calm, lines)] == ["L3", "L4", "L1", "L2"]
    assert [line.id for line in fading_order(loving, lines)] == ["L3", "L4", "L2", "L1"]
    assert [line.id for line in fading_order(winning, lines)] == ["L4", "L3", "L1", "L2"]


def test_a_line_in_the_owners_own_words_leaves_after_all_others() -> None:
    lines = [CurrentLine(f"L{n}", CONTEXT, "a", 0.1 * n, Trust.OWNER, NOW) for n in range(1, 4)]
    read = replace(snapshot(""), handwritten=("L1",))
    assert [line.id for line in fading_order(read, lines)] == ["L2", "L3", "L1"]


def test_pinned_lines_and_pointers_never_fade_and_counted_lines_last() -> None:
    lines = [
        CurrentLine("L1", CONTEXT, "a", 0.0, Trust.AGENT, NOW, pinned=True),
        CurrentLine("L2", POINTERS, "b → search: `c`", 0.0, Trust.AGENT, NOW),
        CurrentLine("L3", SKILLS, "c", 0.1, Trust.AGENT, NOW),
        CurrentLine("L4", NICHE, "d", 0.1, Trust.AGENT, NOW),
        CurrentLine("L5", PHENOTYPE, "e", 0.9, Trust.AGENT, NOW),
        CurrentLine("L6", PHENOTYPE, "f", 0.9, Trust.AGENT, NOW - timedelta(days=1)),
    ]
    assert [line.id for line in fading_order(snapshot(""), lines)] == ["L6", "L5", "L3", "L4"]


def test_a_file_of_pinned_lines_stays_too_long_and_says_so() -> None:
    text = memory(context=[line_about(name) + " 📌" for name in NAMES])
    dream = faded(snapshot(text, budget=900))
    assert dream.deaths == ()
    (refusal,) = dream.refused
    assert refusal.guard == "budget"
    assert refusal.figures == f"{len(dream.after):,} characters, the budget is 900; what is left is pinned or yours"


def test_the_owners_own_text_does_not_push_every_line_out() -> None:
    own = "## My notes\n\n" + "Every word of this is mine. " * 120 + "\n"
    text = memory(context=[line_about(name, 40) for name in NAMES]) + own
    dream = faded(snapshot(text, budget=4_000))
    assert own in dream.after
    assert len(texts(parse(dream.after), CONTEXT)) >= 2
    assert [one.guard for one in dream.refused] == ["budget"]


# Verified pointers


def test_every_pointer_leads_to_its_crystal_which_the_dream_brings() -> None:
    dream = faded(snapshot(memory(context=[line_about(name, 30) for name in NAMES]), budget=2_400))
    library = World()
    library.upsert(dream.crystals)
    assert len(dream.pointers) >= 2
    texts_of = {crystal.id: crystal for crystal in dream.crystals}
    for pointer in dream.pointers:
        assert pointer.crystal in library.first(pointer.keywords, FIRST)
        assert texts_of[pointer.crystal].origin is Origin.EVICTED
    for text in gone(dream):
        assert text in {crystal.text for crystal in dream.crystals}
    written = [parse_pointer(text) for text in texts(parse(dream.after), POINTERS)]
    assert written == [(pointer.topic, pointer.keywords) for pointer in dream.pointers]


def test_keywords_are_chosen_again_until_the_search_finds_the_crystal() -> None:
    library = World(least_words=7)
    read = snapshot(memory(context=[line_about("apollo"), line_about("beagle")]))
    (pointer,) = faded(read, library, [worlds.evict(CONTEXT, "L1", "Apollo")]).pointers
    assert [len(keywords.split()) for keywords in library.asked] == [4, 5, 6, 7]
    assert pointer.keywords == library.asked[-1]


def test_a_line_whose_crystal_no_search_finds_stays_with_a_refusal() -> None:
    read = snapshot(memory(context=[line_about(name) for name in NAMES[:4]]), budget=600)
    hidden = frozenset(WorkingCopy(read, (), ()).crystal_of(line).id for line in read.lines[:2])
    dream = faded(read, World(hidden=hidden))
    assert texts(parse(dream.after), CONTEXT)[:2] == [line_about("apollo"), line_about("beagle")]
    assert [one.figures for one in dream.refused if one.guard == "pointer"] == [
        f"no words of {name} lead the search to it among 5; it stays" for name in ("L1", "L2")
    ]


def test_when_nothing_can_be_found_nothing_leaves() -> None:
    read = snapshot(memory(context=[line_about(name) for name in NAMES]), budget=600)
    hidden = frozenset(WorkingCopy(read, (), ()).crystal_of(line).id for line in read.lines)
    dream = faded(read, World(hidden=hidden))
    assert len(texts(parse(dream.after), CONTEXT)) == 10
    assert dream.pointers == ()
    assert dream.deaths == ()


def test_a_line_without_a_word_to_search_for_stays() -> None:
    read = snapshot(memory(context=["?!", line_about("apollo", 40)]), budget=500)
    assert texts(parse(faded(read).after), CONTEXT) == ["?!"]


def test_the_evictions_of_the_synthesis_are_verified_too_and_take_its_topic() -> None:
    read = snapshot(memory(context=[line_about("apollo"), line_about("beagle")]))
    wanted = [worlds.evict(CONTEXT, "L1", "Apollo and its parts"), worlds.evict(CONTEXT, "L2", "The beagle")]
    hidden = frozenset({WorkingCopy(read, (), ()).crystal_of(read.lines[1]).id})
    dream = faded(read, World(hidden=hidden), wanted)
    assert [pointer.topic for pointer in dream.pointers] == ["Apollo and its parts"]
    assert texts(parse(dream.after), CONTEXT) == [line_about("beagle")]
    assert [one.guard for one in dream.refused] == ["pointer"]


# At most twenty


def test_at_most_twenty_pointers_stay_and_the_least_used_retire() -> None:
    crystals = [Crystal(f"topic{n:02} quasar{n:02} nebula{n:02}", Origin.EVICTED, NOW) for n in range(20)]
    known = tuple(
        PointerLine(f"Topic{n:02}", f"quasar{n:02} nebula{n:02}", crystal.id, f"L{n}", uses=0 if n in {3, 7} else 5)
        for n, crystal in enumerate(crystals)
    )
    lines = [f"{one.topic} → search: `{one.keywords}`" for one in known]
    text = memory(pointers=lines, context=[line_about("apollo"), line_about("beagle"), line_about("cassini")])
    library = World()
    library.upsert(crystals)
    read = snapshot(text, pointers=known, pointed=tuple(crystals), budget=20_000)
    wanted = [worlds.evict(CONTEXT, "L1", "Apollo"), worlds.evict(CONTEXT, "L2", "Beagle")]
    dream = faded(read, library, wanted)
    assert len(dream.pointers) == len(texts(parse(dream.after), POINTERS)) == MAX_POINTERS
    assert {one.topic for one in dream.retired_pointers} == {"Topic03", "Topic07"}
    assert {"Apollo", "Beagle"} <= {one.topic for one in dream.pointers}


def test_thirty_lines_that_leave_make_no_more_than_twenty_pointers() -> None:
    many = [line_about(f"{name}{n}", 6) for name in NAMES for n in range(4)]
    dream = faded(snapshot(memory(context=many), budget=900))
    assert len(gone(dream)) >= 30
    assert len(dream.pointers) <= MAX_POINTERS
    assert len(dream.after) <= 900
    assert set(gone(dream)) <= {crystal.text for crystal in dream.crystals}


# Mending


def pointed(keywords: str, text: str = line_about("apollo")) -> tuple[Snapshot, World, Crystal]:
    crystal = Crystal(text, Origin.EVICTED, NOW)
    known = PointerLine("Apollo", keywords, crystal.id, "L0", 2)
    read = snapshot(memory(pointers=[f"Apollo → search: `{keywords}`"]), pointers=(known,), pointed=(crystal,))
    library = World()
    library.upsert([crystal])
    return read, library, crystal


def test_a_pointer_that_resolves_is_left_alone() -> None:
    read, library, _ = pointed("apollo1 apollo2")
    dream = faded(read, library)
    assert dream.pointers == read.pointers
    assert dream.edits == ()
    assert library.asked == ["apollo1 apollo2"]


def test_a_pointer_that_no_longer_resolves_is_mended_under_its_topic() -> None:
    read, library, crystal = pointed("apollo1 quasar")
    library.upsert([Crystal(f"quasar {n} apollo1", Origin.SESSION, NOW) for n in range(9)])
    dream = faded(read, library)
    (mended,) = dream.pointers
    assert (mended.topic, mended.crystal, mended.uses) == ("Apollo", crystal.id, 2)
    assert mended.keywords != "apollo1 quasar"
    assert crystal.id in library.first(mended.keywords, FIRST)
    assert texts(parse(dream.after), POINTERS) == [f"Apollo → search: `{mended.keywords}`"]
    assert [one.keywords for one in dream.retired_pointers] == ["apollo1 quasar"]


def test_a_pointer_to_nothing_retires() -> None:
    read, _, _ = pointed("apollo1 apollo2")
    dream = faded(replace(read, pointed=()), World())
    assert dream.pointers == ()
    assert texts(parse(dream.after), POINTERS) == []


# Old text


def above(count: int, words: int = 4) -> tuple[list[str], tuple[CurrentLine, ...]]:
    old = [f"Old note {n:02}: {line_about(f'moon{n:02}', words)}" for n in range(count)]
    return old, tuple(CurrentLine(f"T{n}", CONTEXT, line, 0.7, Trust.OWNER, NOW) for n, line in enumerate(old, 1))


def test_text_from_before_the_first_dream_leaves_from_its_end_twenty_lines_at_a_time() -> None:
    old, old_text = above(30)
    text = appended("\n".join(f"- {line}" for line in old) + "\n", memory(context=[line_about("apollo")]))
    dream = faded(snapshot(text, old_text=old_text, budget=1_200))
    assert [death.id for death in dream.deaths if death.id[0] == "T"] == [f"T{n}" for n in range(30, 10, -1)]
    assert all(f"- {line}\n" in dream.after for line in old[:10])
    assert set(old[10:]) <= {crystal.text for crystal in dream.crystals}


def test_text_from_before_the_first_dream_stays_within_its_share_and_lines_of_the_sections_leave() -> None:
    old, old_text = above(6)
    before = "# Mine\n\n" + "\n".join(f"- {line}" for line in old) + "\n"
    text = appended(before, memory(context=[line_about(name) for name in NAMES]))
    dream = faded(snapshot(text, old_text=old_text, budget=2_000))
    assert len(before) < OLD_TEXT_SHARE * 2_000
    assert dream.after.startswith(before)
    assert len(dream.after) <= 2_000
    assert gone(dream) != []


# Shares


def about(section: SectionName, count: int, importance: float, words: int = 3) -> list[CurrentLine]:
    name = section.name.lower()
    return [
        CurrentLine(f"{name}{n}", section, line_about(f"{name}{n}", words), importance, Trust.AGENT, NOW)
        for n in range(count)
    ]


def standing_of(dream: Dream, section: SectionName) -> int:
    return len(texts(parse(dream.after), section))


def crowded(*groups: list[CurrentLine], **changes: object) -> Snapshot:
    lines = tuple(line for group in groups for line in group)
    sections: dict[str, list[str]] = {}
    for line in lines:
        sections.setdefault(line.section.name.lower(), []).append(line.text)
    return snapshot(memory(**sections), lines=lines, **changes)


MOODS = [
    Hormones(0.15, 0.02, 0.2, NOW),
    Hormones(0.95, 0.05, 0.05, NOW),
    Hormones(0.05, 0.95, 0.05, NOW),
    Hormones(0.05, 0.05, 0.95, NOW),
]


@pytest.mark.parametrize("mood", MOODS, ids=["calm", "reward", "error", "social"])
def test_thirty_lines_of_the_bond_outlast_heavier_ones_of_active_context_in_any_mood(mood: Hormones) -> None:
    bond, context = about(BOND, 30, 0.5, 8), about(CONTEXT, 90, 0.9, 8)
    dream = faded(crowded(bond, context, budget=8_000, hormones=mood))
    assert standing_of(dream, BOND) == 30
    assert standing_of(dream, CONTEXT) >= 20


@pytest.mark.full
@pytest.mark.parametrize("mood", MOODS, ids=["calm", "reward", "error", "social"])
def test_what_lasts_never_pushes_the_work_below_its_share(mood: Hormones) -> None:
    bond, phenotype = about(BOND, 90, 1.0), about(PHENOTYPE, 60, 1.0)
    read = crowded(phenotype, bond, about(CONTEXT, 60, 0.1), budget=4_000, hormones=mood)
    dream = faded(read)
    room = room_for(read, WorkingCopy(read, (), ()))
    assert len(dream.after) <= 4_000
    for section in (PHENOTYPE, BOND, CONTEXT):
        lines = texts(parse(dream.after), section)
        assert sum(map(len, lines)) + 3 * len(lines) >= SHARES[section] * room.lines - max(map(len, lines)) - 4


def test_a_section_that_does_not_use_its_share_leaves_it_to_the_others() -> None:
    dream = faded(crowded(about(CONTEXT, 90, 0.5), about(BOND, 2, 0.5), budget=4_000))
    assert standing_of(dream, BOND) == 2
    context = texts(parse(dream.after), CONTEXT)
    assert sum(map(len, context)) > 2 * SHARES[CONTEXT] * 4_000 * 0.85


def test_what_stood_long_keeps_the_share_of_the_bond_and_newcomers_take_turns_beside_it() -> None:
    old = [replace(line, born_at=NOW - timedelta(days=9)) for line in about(BOND, 20, 0.5, 1)]
    new = [
        replace(line, id=f"new{n}", text=line_about(f"newcomer{n}", 1)) for n, line in enumerate(about(BOND, 80, 0.5))
    ]
    new = [replace(line, born_at=NOW - timedelta(hours=80 - n)) for n, line in enumerate(new)]
    dream = faded(crowded(old, new, budget=4_000))
    left = texts(parse(dream.after), BOND)
    assert {line.text for line in old} <= set(left)
    assert new[-1].text in left
    assert len(left) < 100


def test_the_shares_are_all_of_the_room() -> None:
    assert set(SHARES) == set(SectionName)
    assert sum(SHARES.values()) == pytest.approx(1.0)
