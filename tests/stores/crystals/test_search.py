from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.search.ranking import Filters, Findings
from state.signals.hormones import Hormones
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.search import Searched, candidates, rank_of, search, stored_aside
from state.stores.database.opening import memory_database
from state.stores.vectors.calibration import Calibration
from state.trust import Trust
from tests.support.in_memory import BagOfWords, ListIndex
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, tzinfo=UTC)


def _note(text: str, **changes: object) -> Crystal:
    made = replace(Crystal(text, Origin.SCRATCH, NOW - timedelta(days=1)), **changes)  # type: ignore[arg-type]
    return replace(made, id=made.digest)


def _searched(crystals: Crystals) -> Searched:
    embedder = BagOfWords()
    crystals.vectors.embed_pending(embedder, 10_000)
    return Searched(crystals, embedder)


def _texts(findings: Findings) -> list[str]:
    return [hit.crystal.text for hit in findings.hits]


def test_the_text_that_answers_comes_first_with_its_age(crystals: Crystals) -> None:
    crystals.learn([_note("The canary was drained"), _note("Lunch at noon"), _note("The cluster is fine")])
    found = search(_searched(crystals), "drain canary", NOW)
    assert _texts(found)[0] == "The canary was drained"
    assert found.hits[0].age_days == 1
    assert found.good
    assert found.arms == ("lexical", "dense")


def test_without_an_embedder_the_search_is_lexical_and_says_so(crystals: Crystals) -> None:
    crystals.learn([_note("The canary was drained"), _note("Lunch at noon")])
    found = search(Searched(crystals), "canary drained", NOW)
    assert _texts(found) == ["The canary was drained"]
    assert found.arms == ("lexical",)
    assert found.good


def test_a_search_has_cosines_on_the_scale_of_its_models_calibration(crystals: Crystals) -> None:
    crystals.learn([_note("The canary was drained")])
    embedder, found = BagOfWords(), list[float]()
    crystals.vectors.embed_pending(embedder)
    for scale in ((1.0, 0.0), (0.5, 0.1)):
        embedder.calibration = Calibration(scale=scale)
        ((_, signals),) = candidates(Searched(crystals, embedder), "the canary of the harbour", NOW)
        found.append(signals.cosine)
    assert found[1] == pytest.approx(0.5 * found[0] + 0.1) != found[0]


CLUSTER = "canary cluster quartz replica"


@pytest.mark.parametrize(
    ("query", "earlier", "later", "is_first"),
    [
        ("the canary cluster", f"{CLUSTER}, gate north", CLUSTER, True),
        ("gate north", f"{CLUSTER}, gate north", CLUSTER, False),
        ("canary", "canary gate", "canary bridge south", False),
    ],
    ids=["about the same", "a worse answer", "about something else"],
)
def test_a_later_text_about_the_same_comes_first_if_it_answers_nearly_as_well(
    crystals: Crystals, query: str, earlier: str, later: str, *, is_first: bool
) -> None:
    crystals.learn([_note(earlier, created_at=NOW - timedelta(days=9)), _note(later)])
    found = search(_searched(crystals), query, NOW, everything=True)
    assert _texts(found) == ([later, earlier] if is_first else [earlier, later])


TURNS = [
    {
        "origin": Origin.SESSION,
        "session": session,
        "position": at,
        "speaker": "Ada",
        "created_at": NOW - timedelta(days),
    }
    for at, (session, days) in enumerate((("monday", 9), ("friday", 2)))
]


def test_turns_keep_the_order_of_relevance_and_what_came_later_is_told_beneath(crystals: Crystals) -> None:
    earlier, later = f"{CLUSTER}, gate north", CLUSTER
    crystals.learn([_note(earlier, **TURNS[0]), _note(later, **TURNS[1])])
    hits = search(_searched(crystals), "the canary cluster at the gate", NOW, everything=True).hits
    assert [(hit.crystal.text, hit.later and hit.later.text) for hit in hits] == [(earlier, later), (later, None)]


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (f"{CLUSTER}, gate north?", {}),
        (f"{CLUSTER}, gate south", {"session": "monday"}),
        ("quartz of the window", {}),
        (f"{CLUSTER}, gate south", {"created_at": NOW - timedelta(days=10)}),
    ],
    ids=["only asks", "of the same session", "about something else", "earlier"],
)
def test_beneath_a_result_stands_only_what_tells_of_it_at_another_time(
    crystals: Crystals, later: str, said: dict[str, object]
) -> None:
    crystals.learn([_note(f"{CLUSTER}, gate north", **TURNS[0]), _note(later, **TURNS[1] | said)])
    hits = search(_searched(crystals), "canary cluster quartz gate north", NOW, everything=True).hits
    assert [hit.later for hit in hits if hit.crystal.text.endswith("north")] == [None]


def test_a_value_that_came_back_is_told_with_the_time_at_which_it_did(crystals: Crystals) -> None:
    first, between = f"{CLUSTER}, gate north", f"{CLUSTER}, gate south"
    again = {"session": "wednesday", "created_at": NOW - timedelta(hours=1)}
    crystals.learn([_note(first, **TURNS[0]), _note(between, **TURNS[1]), _note(first, **TURNS[0] | again)])
    hits = search(_searched(crystals), "canary cluster quartz gate south", NOW, everything=True).hits
    told = [(hit.later.text, hit.later.created_at) for hit in hits if hit.later]
    assert told == [(first, NOW - timedelta(hours=1))]


@pytest.mark.parametrize(
    ("query", "found"),
    [("🦆", "🦆 means green"), ("👍🏽?", "Said 👍"), ("C++", "In c++ or Go"), ("about C#", "In C# or Go")],
)
def test_pictures_and_names_with_signs_are_found(crystals: Crystals, query: str, found: str) -> None:
    crystals.learn(
        map(_note, ["🦊 means red", "🦆 means green", "Said 👍", "In C or Go", "In c++ or Go", "In C# or Go"])
    )
    assert _texts(search(Searched(crystals), query, NOW, everything=True))[0] == found


def test_what_only_asks_stands_apart_from_what_tells(crystals: Crystals) -> None:
    asking, both = "Does the canary guard the gate?", "The canary guards the gate. Does the gate need two?"
    crystals.learn([_note(asking), _note(both)])
    found = search(_searched(crystals), "canary gate", NOW)
    assert (_texts(found), [hit.crystal.text for hit in found.questions]) == ([both], [asking])
    assert {*_texts(search(_searched(crystals), "canary gate", NOW, everything=True))} == {both, asking}


WISH = "Always show the quartz when I ask about bridges."


def test_what_an_agent_is_told_to_do_always_counts_more_than_what_people_tell_each_other(crystals: Crystals) -> None:
    matches = []
    for session, (answerer, trust) in {"a": ("assistant", Trust.AGENT), "b": ("Grace", Trust.OWNER)}.items():
        there = {"origin": Origin.SESSION, "session": session, "trust": Trust.OWNER}
        wish = _note(WISH, speaker=f"Ada {session}", position=0, kind=Kind.INSTRUCTION, **there)
        reply = _note("I will.", speaker=answerer, position=1, **there | {"trust": trust})
        crystals.learn([wish, reply, _note(f"The bridge is long, {session}", position=9, **there)])
        hits = search(
            _searched(crystals), "Which bridge is long?", NOW, everything=True, filters=Filters(session=session)
        )
        matches += [hit.match for hit in hits.hits if hit.crystal.text == WISH]
        assert hits.hits[0].crystal.text != WISH
    assert matches[0] - matches[1] == pytest.approx(0.05, abs=0.01)


HOSTILE = ["", " ", "?", '"', "' OR 1=1 --", "NEAR(a b)", "text:x", "a AND", "*", "\0", "a\ud83db", "the", "-", "😀"]


@given(query=st.text())
@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_string_is_a_query(crystals: Crystals, query: str) -> None:
    crystals.learn([_note("the canary and the cluster", session="s")])
    search(_searched(crystals), query, NOW)


def test_a_long_text_that_holds_every_word_comes_before_short_ones_that_hold_some(crystals: Crystals) -> None:
    page = " ".join(f"filler{number}" for number in range(150))
    crystals.learn([_note("canary cluster"), _note("replica quartz"), _note(f"canary cluster replica quartz {page}")])
    crystals.learn(_note(f"something else {number}") for number in range(20))
    found = search(Searched(crystals), "canary cluster replica quartz", NOW)
    assert len(_texts(found)[0]) > 100


# --- what stands about a text


def test_the_answer_to_a_question_is_found_though_it_repeats_none_of_its_words(crystals: Crystals) -> None:
    crystals.learn(_note(f"chatter number {n}", session="s", position=n) for n in range(10))
    crystals.learn([_note("Who looks after the canary cluster?", session="s", position=10)])
    crystals.learn([_note("Tom does, since May.", session="s", position=11)])
    crystals.learn(_note(f"prattle number {n}", session="s", position=n) for n in range(12, 22))
    for searched in (_searched(crystals), Searched(crystals)):
        assert "Tom does, since May." in _texts(search(searched, "canary cluster", NOW))[:3]


# --- hormones and age


def test_what_was_asked_before_stands_behind_its_answer(crystals: Crystals) -> None:
    asked = "Tell me: which replica has the canary?"
    crystals.learn(_note(asked, session=f"s{n}", position=0, speaker="user") for n in range(3))
    for searched in (_searched(crystals), Searched(crystals)):
        found = search(searched, "which replica has the canary?", NOW)  # nothing answers it yet
        assert ([hit.crystal.text for hit in found.questions], found.hits) == ([asked], ())
    crystals.learn([_note("The canary is on the blue replica")])
    for searched in (_searched(crystals), Searched(crystals)):
        found = search(searched, "which replica has the canary?", NOW, everything=True)
        assert _texts(found) == ["The canary is on the blue replica", asked]


def test_hormones_order_near_ties_only(crystals: Crystals) -> None:
    stressed = Hormones(0.0, 1.0, 0.2, NOW)
    crystals.learn(
        [_note("canary cluster drained", created_at=NOW - timedelta(days=300), lifecycle=Lifecycle.FROZEN)]
    )
    crystals.learn([_note("canary", created_at=NOW)])
    found = search(_searched(crystals), "canary cluster drained", NOW, hormones=stressed, everything=True)
    assert _texts(found) == ["canary cluster drained", "canary"]


# --- filters

SINCE, UNTIL = NOW - timedelta(days=10), NOW - timedelta(days=5)
FILTERED = [
    (Filters(origin=Origin.SEED), {"origin": Origin.SEED}),
    (Filters(kind=Kind.GOAL), {"kind": Kind.GOAL}),
    (Filters(session="s"), {"session": "s"}),
    (Filters(speaker="Mira"), {"speaker": "Mira"}),
    (Filters(since=NOW), {"created_at": NOW}),
    (Filters(until=UNTIL), {"created_at": UNTIL - timedelta(seconds=1)}),
    (Filters(since=SINCE, until=UNTIL), {"created_at": SINCE}),
    (Filters(trust=Trust.OWNER), {"trust": Trust.OWNER}),
    (Filters(kind=Kind.GOAL, speaker="Mira"), {"kind": Kind.GOAL, "speaker": "Mira"}),
]


@pytest.mark.parametrize(("filters", "passes"), FILTERED)
@pytest.mark.parametrize("arms", ["lexical", "exact", "index"])
def test_only_what_passes_the_filter_is_found(
    crystals: Crystals, filters: Filters, passes: dict[str, object], arms: str
) -> None:
    crystals.learn(_note(f"canary cluster {number}", session="t", position=number) for number in range(100))
    crystals.learn([_note("canary", **passes)])
    embedder, index = BagOfWords(), ListIndex()
    crystals.vectors.embed_pending(embedder, 1_000)
    index.tell(crystals, 1_000)
    searched = {
        "lexical": Searched(crystals),
        "exact": Searched(crystals, embedder),
        "index": Searched(crystals, embedder, index),
    }[arms]
    assert _texts(search(searched, "canary cluster", NOW, filters=filters)) == ["canary"]


# --- the indexes


def _kept(crystals: Crystals) -> tuple[BagOfWords, ListIndex]:
    embedder, index = BagOfWords(), ListIndex()
    crystals.learn(_note(f"note {number} on the cluster") for number in range(30))
    crystals.vectors.embed_pending(embedder)
    index.tell(crystals)
    return embedder, index


def test_what_is_beside_is_searched_as_if_it_were_written_and_nothing_is(crystals: Crystals) -> None:
    embedder, index = _kept(crystals)
    evicted = _note("The passphrase of the north gate is quartz", origin=Origin.LINE)
    crystals.connection.execute("PRAGMA query_only = ON")
    with stored_aside([evicted], embedder) as aside:
        searched = Searched(crystals, embedder, index, aside)
        assert rank_of(searched, "quartz gate passphrase", evicted.id, NOW) == 1
        assert rank_of(searched, "cluster", evicted.id, NOW) is None
        assert searched.frequency(["quartz", "cluster"]) == {"quartz": 1, "cluster": 30}
    assert rank_of(Searched(crystals, embedder, index), "quartz gate passphrase", evicted.id, NOW) is None


TOPICS = "gate cluster quartz canary replica invoice harbour compost".split()
sentences = st.lists(st.sampled_from(TOPICS), min_size=2, max_size=6).map(
    lambda words: "the " + " of the ".join(words)
)


def _turn(text: str, position: int, speaker: str = "User", session: str = "s") -> Crystal:
    return _note(text, origin=Origin.SESSION, speaker=speaker, session=session, position=position)


def test_what_a_person_says_comes_before_an_agents_reply_with_the_same_words(crystals: Crystals) -> None:
    person, agent = _turn("the pooler listens on 6432", 1), _turn("on 6432 listens the pooler", 2, "assistant")
    crystals.learn([agent, person])
    searched = _searched(crystals)
    assert _texts(search(searched, "where does the pooler listen", NOW)) == [person.text, agent.text]
    found = candidates(searched, "where did you say the pooler listens", NOW)
    assert not any(signals.reply for _, signals in found)


@pytest.mark.full
@pytest.mark.parametrize("dense", [True, False])
@given(stored=st.lists(sentences, min_size=20, max_size=40), new=st.lists(sentences, min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_comes_first_beside_comes_among_the_first_once_it_is_written(
    stored: list[str], new: list[str], *, dense: bool
) -> None:
    embedder = BagOfWords() if dense else None
    with closing(memory_database()) as connection:
        crystals = Crystals(connection)
        crystals.learn(map(_note, stored))
        leaving = [_note(text, origin=Origin.LINE) for text in new]
        if embedder:
            crystals.vectors.embed_pending(embedder, 1_000)
        with stored_aside(leaving, embedder) as aside:
            tried = [rank_of(Searched(crystals, embedder, None, aside), one.text, one.id, NOW, 3) for one in leaving]
        crystals.learn(leaving)
        if embedder:
            crystals.vectors.embed_pending(embedder, 1_000)
        for one, rank in zip(leaving, tried, strict=True):
            if rank is not None:
                hits = search(Searched(crystals, embedder), one.text, NOW, limit=99, by_value=False).hits
                score = next(hit.score for hit in hits if hit.crystal.id == one.id)
                assert sum(hit.score > score + 1e-9 for hit in hits) < 5  # any order is right for equal texts


# --- what is returned

THINGS, STATES = ("wall", "light", "crane", "mole"), ("old", "of granite", "painted")
HARBOUR = [f"The {thing} of the harbour is {state}" for thing in THINGS for state in STATES]
TEAM = ["Ada drinks tea in the morning", "The deployment runs on port 8443", "ERR_4711 means that the disk is full"]
WORDS = [*" ".join((*HARBOUR, *TEAM)).split(), "nobody"]


@pytest.fixture(scope="module", params=["words", "meaning"])
def kept(request: pytest.FixtureRequest) -> Iterator[Searched]:
    with closing(memory_database()) as connection:
        crystals, embedder = Crystals(connection), BagOfWords() if request.param == "meaning" else None
        crystals.learn([_note(text) for text in (*HARBOUR, *TEAM)])
        if embedder is not None:
            crystals.vectors.embed_pending(embedder, 100)
        yield Searched(crystals, embedder)


@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6))
def test_all_shows_what_is_unlikely_behind_the_rest(kept: Searched, words: list[str]) -> None:
    some, every = (search(kept, " ".join(words), NOW, everything=everything) for everything in (False, True))
    assert _texts(every)[: len(some.hits)] == _texts(some)
    assert (len(some.hits) + some.unlikely, every.unlikely) == (len(every.hits), 0)
    assert some.good == every.good
    assert [hit.score for hit in every.hits] == sorted((hit.score for hit in every.hits), reverse=True)


@pytest.mark.parametrize("query", ["ERR_4711", "what does ERR_4711 mean?", "port 8443 deployment", "tea morning Ada"])
def test_an_identifier_and_keywords_always_find_their_text(kept: Searched, query: str) -> None:
    assert search(kept, query, NOW).hits


def test_where_nothing_is_near_nothing_is_returned(crystals: Crystals) -> None:
    crystals.learn([_note(f"{text} {number}") for text in HARBOUR for number in range(3)])
    embedder = BagOfWords()
    crystals.vectors.embed_pending(embedder, 100)
    found = search(Searched(crystals, embedder), "quarks and gluons", NOW)
    assert not found.hits
    assert found.unlikely


# --- questions that name several things

CROWD = [f"The canary cluster was drained at the north gate by person {number}" for number in range(30)]
DEPLOYS = [f"The {word} of service {number} is over" for word in ("deploy", "week") for number in range(30)]
ANSWER = "The deploy of the week is on Thursday"
BOTH = "Who drained the canary cluster at the north gate, and when is the deploy of the week?"


@pytest.mark.parametrize("limit", [4, 8, 10])
def test_of_two_things_that_are_asked_for_each_is_answered(crystals: Crystals, limit: int) -> None:
    crystals.learn(_note(text) for text in (*CROWD, *DEPLOYS, ANSWER))
    searched = _searched(crystals)
    alone = search(searched, BOTH.partition(", and ")[0], NOW, limit=limit)
    found = search(searched, BOTH, NOW, limit=limit)
    assert ANSWER not in _texts(alone)
    assert _texts(found)[0] in CROWD
    assert ANSWER in _texts(found)
    assert len(found.hits) == limit
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)


def test_whether_there_is_an_answer_the_whole_question_tells(crystals: Crystals) -> None:
    crystals.learn(_note(text) for text in (*CROWD, *DEPLOYS))
    searched = _searched(crystals)
    assert search(searched, "person at the north gate", NOW).good
    asked = "Which violin concerto did Ada rehearse for Vienna last spring with Tim, and the gate?"
    assert not search(searched, asked, NOW).good
