"""Crystals in the stores: written once, taken in by dreams, merged, faded, forgotten; skills and open questions."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin, Source, crystal_digest, fades_at
from state.crystals.salience import salience
from state.signals.curiosity import Cause
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals, Occurrence
from state.stores.crystals.hormones import Questions
from state.stores.crystals.search import Searched, search
from state.stores.crystals.skills import emerging_skills
from state.stores.database.moments import to_text
from state.stores.database.opening import open_database
from state.trust import Trust
from tests.stores.crystals.test_search import _note
from tests.support.in_memory import BagOfWords

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
FULL = Crystal(
    text="Mira drained the canary",
    origin=Origin.SESSION,
    created_at=AT,
    kind=Kind.EPISODE,
    importance=0.7,
    trust=Trust.OWNER,
    context="Mira, 1 March 2026",
    speaker="Mira",
    session="s1",
    position=4,
    source=Source("log.jsonl", 5, 6, "ab12"),
    parents=("p1", "p2"),
    lifecycle=Lifecycle.CONSOLIDATED,
    accesses=2,
    last_accessed_at=AT + timedelta(hours=1),
    valence=-0.25,
)
ALLERGIC = Crystal("I am allergic to nuts.", Origin.SESSION, AT, speaker="Anna")
FACT = Crystal("The port is 8443", Origin.SCRATCH, AT)
SAID = Crystal("Ada prefers tea over coffee in the morning", Origin.SCRATCH, AT, importance=0.8)
AGAIN = Crystal("ADA prefers tea over  coffee in the morning", Origin.SCRATCH, AT + timedelta(hours=1))
TASK = Crystal("Before each release write the changelog", Origin.SESSION, AT, Kind.TASK_PATTERN, session="a")
BILLING = "Who owns billing?"


def _turn(text: str, **changes: object) -> Crystal:
    return _note(text, origin=Origin.SESSION, **changes)


def test_the_same_text_met_twice_is_one_crystal_with_two_occurrences(crystals: Crystals) -> None:
    again = replace(FULL, session="s2", position=0, created_at=AT + timedelta(days=1), source=None)
    assert [one.is_new for one in crystals.learn([again, FULL])] == [True, False]
    assert crystals.sources(FULL.id) == [
        Occurrence("s1", 4, AT, FULL.source),
        Occurrence("s2", 0, AT + timedelta(days=1), None),
    ]
    assert crystals.get([FULL.id])[0].source == FULL.source
    assert crystals.sources("0" * 32) == []


def test_a_crystal_has_the_time_and_context_of_its_first_occurrence(crystals: Crystals) -> None:
    later = _turn("The bell rings at nine", context="Ada, 8 May 2023", created_at=AT + timedelta(days=7), session="b")
    first = replace(later, context="Ada, 1 May 2023", created_at=AT, session="a", position=4)
    crystals.learn([later])
    crystals.learn([first])
    (known,) = crystals.named("bell rings")
    assert (known.created_at, known.context, known.session, known.position) == (AT, "Ada, 1 May 2023", "a", 4)
    assert known.id == later.id
    assert not full_text.is_torn(crystals.connection)
    crystals.learn([later])
    assert crystals.named("bell rings") == [known]


def test_a_later_occurrence_raises_the_importance_and_never_the_trust(crystals: Crystals) -> None:
    crystals.learn([_note("x", importance=0.4, trust=Trust.WEB, parents=("a",))])
    crystals.learn([_note("x", importance=0.9, trust=Trust.OWNER, parents=("b", "a"))])
    crystals.learn([_note("x", importance=0.1, trust=Trust.TOOL)])
    (known,) = crystals.get([_note("x").id])
    assert (known.importance, known.trust, known.parents) == (0.9, Trust.WEB, ("a", "b"))


def test_crystals_are_written_all_or_none(crystals: Crystals) -> None:
    def broken() -> Iterator[Crystal]:
        yield _note("first")
        raise RuntimeError("no second")

    with pytest.raises(RuntimeError):
        crystals.learn(broken())
    assert crystals.count() == 0
    assert not full_text.is_torn(crystals.connection)


# --- whose words


def test_two_people_who_say_the_same_are_two_facts_and_an_echo_is_none(crystals: Crystals) -> None:
    bob = replace(ALLERGIC, speaker="Bob")
    learnt = crystals.learn([ALLERGIC, bob, replace(ALLERGIC, speaker="anna"), bob])
    assert [one.is_new for one in learnt] == [True, True, False, False]
    found = crystals.undreamt()
    assert {(one.speaker, one.id == ALLERGIC.id) for one in found} == {("Anna", True), ("Bob", False)}
    assert crystals.get([one.id for one in found]) == found
    assert crystals.ids_of([crystal_digest(Origin.SESSION, ALLERGIC.text)]) != {}  # as an older version wrote it
    word = _turn("The port is 8080.", speaker="user", trust=Trust.OWNER)
    learnt = crystals.learn([word, replace(word, speaker="tool", trust=Trust.TOOL)])
    assert [one.is_new for one in learnt] == [True, False]
    assert crystals.get([word.id])[0].trust is Trust.OWNER


# --- what dreams take in


def test_what_no_dream_has_seen_comes_most_important_first_with_its_kinds_mixed(crystals: Crystals) -> None:
    crystals.learn(_turn(f"episode {n}", kind=Kind.EPISODE, importance=0.9) for n in range(100))
    crystals.learn(_turn(f"{kind.value}", kind=kind, importance=0.2) for kind in (Kind.GOAL, Kind.FACT))
    new = crystals.undreamt(50)
    assert len(new) == 50
    assert {crystal.kind for crystal in new} == {Kind.EPISODE, Kind.GOAL, Kind.FACT}
    assert new[0].importance == 0.9
    assert crystals.undreamt_count() == 102


def test_what_a_dream_passed_over_is_no_news_and_comes_along_with_news_when_it_is_important(
    crystals: Crystals,
) -> None:
    crystals.learn(_turn(f"turn {n}", importance=0.6) for n in range(80))
    crystals.learn(_turn(f"small talk {n}", importance=0.3) for n in range(80))
    first = crystals.undreamt(50)
    crystals.mark_dreamt([crystal.id for crystal in first], 1, crystals.newest())
    assert crystals.undreamt_count() == 0
    crystals.learn([_turn("the news", importance=0.2)])
    assert crystals.undreamt_count() == 1
    second = crystals.undreamt(50)
    assert second[0].text == "the news"
    assert len(second) == 1 + 30
    assert {crystal.importance for crystal in second[1:]} == {0.6}


def test_what_is_given_back_is_news_again(crystals: Crystals) -> None:
    crystals.learn(_turn(f"turn {n}", importance=0.2) for n in range(3))
    ids = [crystal.id for crystal in crystals.undreamt()]
    crystals.mark_dreamt(ids, 1, crystals.newest())
    assert crystals.dreamt_in(1) == sorted(ids, key=ids.index)
    crystals.undream(ids[1:2])
    assert crystals.undreamt_count() == 1
    assert [crystal.id for crystal in crystals.undreamt()] == ids[1:2]


def test_a_pending_note_is_input_as_a_note_alone(crystals: Crystals) -> None:
    crystals.learn([pending := _note("pending"), _note("of before there were rows of notes, and given back")])
    crystals.connection.execute(
        "INSERT INTO notes (at, importance, auto, replaces, digest, crystal, filed) VALUES ('', .5, 0, '', '', ?, 1)",
        tuple(crystals.keys([pending.id]).values()),
    )
    assert [crystal.text for crystal in crystals.undreamt()] == ["of before there were rows of notes, and given back"]
    assert crystals.undreamt_count() == 1


def test_the_output_of_a_dream_is_not_its_input(crystals: Crystals) -> None:
    crystals.learn([_note("made", origin=Origin.DREAM), _note("left", origin=Origin.LINE)])
    crystals.learn([_note(origin, origin=origin) for origin in (Origin.SEED, Origin.WORKING, Origin.SESSION)])
    assert {crystal.origin for crystal in crystals.undreamt()} == {Origin.WORKING, Origin.SESSION}
    assert crystals.undreamt_count() == 2


# --- fading


def _stage(crystals: Crystals, crystal: Crystal = FACT) -> Lifecycle:
    return crystals.get([crystal.id])[0].lifecycle


def _assert_moments(crystals: Crystals) -> None:
    """The column says what the values in the row say."""
    for row in crystals.connection.execute("SELECT id, fades_at FROM crystals").fetchall():
        moment = fades_at(crystals.get([row["id"]])[0])
        assert moment is not None
        assert row["fades_at"] == to_text(moment)


def test_the_moment_is_kept_through_all_that_changes_it(crystals: Crystals) -> None:
    crystals.learn([FACT, replace(FACT, text="x", valence=0.7, accesses=3, last_accessed_at=AT)])
    _assert_moments(crystals)
    crystals.touch([FACT.id], AT + timedelta(days=2))
    _assert_moments(crystals)
    crystals.learn([replace(FACT, importance=0.9)])
    _assert_moments(crystals)
    crystals.mark_dreamt([FACT.id], 1)
    crystals.connection.execute("UPDATE crystals SET lifecycle = 'frozen'")
    _assert_moments(crystals)


def test_an_access_brings_it_back_and_it_fades_again(crystals: Crystals) -> None:
    crystals.learn([FACT])
    crystals.archive_faded(later := AT + timedelta(days=400))
    crystals.touch([FACT.id], later)
    assert _stage(crystals) is Lifecycle.ACTIVATED
    assert crystals.archive_faded(later) == (0, 0)
    moment = fades_at(crystals.get([FACT.id])[0])
    assert moment is not None
    assert crystals.archive_faded(moment) == (1, 0)


def _point(crystals: Crystals, crystal: Crystal, *, standing: bool) -> None:
    crystals.connection.execute(
        "INSERT INTO pointers (keywords, topic, crystal, made_in, standing) VALUES (?, 'x', ?, 1, ?)",
        (crystal.text, crystal.id, standing),
    )


def test_what_a_standing_pointer_leads_to_is_frozen_instead(crystals: Crystals) -> None:
    crystals.learn([FACT, other := replace(FACT, text="other", id="0" * 32)])
    _point(crystals, FACT, standing=True)
    _point(crystals, other, standing=False)
    assert crystals.archive_faded(AT + timedelta(days=400)) == (1, 1)
    assert (_stage(crystals), _stage(crystals, other)) == (Lifecycle.FROZEN, Lifecycle.ARCHIVED)


# --- merged


def test_the_twin_stays_as_it_is_and_names_its_survivor(crystals: Crystals) -> None:
    crystals.learn([SAID, AGAIN])
    survivor, twin = crystals.get([SAID.id, AGAIN.id])
    assert survivor == replace(SAID, parents=(AGAIN.id,), last_accessed_at=AGAIN.created_at)
    assert twin == replace(AGAIN, lifecycle=Lifecycle.ARCHIVED)
    assert crystals.survivors((1, 2)) == {2: 1}
    crystals.touch([AGAIN.id], AT + timedelta(hours=2))
    assert _stage(crystals, AGAIN) is Lifecycle.ARCHIVED
    assert crystals.count() == 2


def test_one_speakers_equal_texts_are_found_without_an_embedding_model(crystals: Crystals) -> None:
    others = replace(SAID, text=AGAIN.text, speaker="Mira", origin=Origin.SESSION, id="1" * 32)
    crystals.learn([SAID, AGAIN, others])
    assert crystals.survivors((1, 2, 3)) == {2: 1}


def test_what_a_pointer_leads_to_is_not_merged_away_whether_it_stands_or_not(crystals: Crystals) -> None:
    _point(crystals, AGAIN, standing=False)
    crystals.learn([SAID, AGAIN])
    assert crystals.survivors((1, 2)) == {1: 2}


def test_who_forgets_the_survivor_forgets_what_says_the_same(crystals: Crystals) -> None:
    crystals.learn([SAID, AGAIN])
    assert set(crystals.remove([SAID.id])) == {SAID.id, AGAIN.id}
    assert crystals.count() == 0


def test_a_search_shows_the_survivor_alone_and_the_twin_for_its_very_words(crystals: Crystals) -> None:
    crystals.learn([SAID, AGAIN])
    embedder = BagOfWords()
    crystals.vectors.embed_pending(embedder)
    searched = Searched(crystals, embedder)

    def found(query: str) -> list[str]:
        return [hit.crystal.text for hit in search(searched, query, AT + timedelta(days=3)).hits]

    assert found("tea or coffee in the morning?") == [SAID.text]
    assert found(f"who said: {AGAIN.text}") == [SAID.text, AGAIN.text]


# --- skills and questions


def test_the_same_words_in_three_sessions_are_one_crystal_and_a_skill(crystals: Crystals) -> None:
    crystals.learn(replace(TASK, session=day, created_at=AT + timedelta(days=int(day))) for day in "012")
    crystals.learn([replace(TASK, session="a copy of 0")])  # at the same time
    assert crystals.count() == 1
    (skill,) = emerging_skills(crystals)
    assert (skill.occurrences, skill.sessions) == (3, 3)


def test_one_task_that_is_searched_often_is_no_skill(crystals: Crystals) -> None:
    crystals.learn([TASK])
    for hour in range(40):
        crystals.touch([TASK.id], AT + timedelta(hours=hour))
    assert emerging_skills(crystals) == []


# The same work on three days, as an agent notes it.
DEEDS = {
    "en": ("Rotated the staging keys.", "I rotated the staging keys after lunch.", "Rotated the staging keys again."),
    "de": ("Schlüssel der Testumgebung geprüft.", "Ich habe die Schlüssel der Testumgebung geprüft.",
           "Schlüssel der Testumgebung nochmals geprüft."),
    "fr": ("J'ai vérifié les clés du serveur.", "Vérifié les clés du serveur.",
           "J'ai vérifié les clés du serveur hier."),
    "es": ("Revisé las claves del servidor.", "Hoy revisé las claves del servidor.",
           "He revisado las claves del servidor."),
    "pt": ("Verifiquei as chaves do servidor.", "Hoje verifiquei as chaves do servidor.",
           "Já verifiquei as chaves do servidor."),
    "it": ("Ho controllato le chiavi del server.", "Controllato le chiavi del server.",
           "Ho controllato di nuovo le chiavi del server."),
    "ru": ("Проверил ключи сервера.", "Сегодня проверил ключи сервера.", "Снова проверил ключи сервера."),
    "zh": ("检查了服务器的密钥。", "今天检查了服务器的密钥。", "又检查了服务器的密钥。"),
    "ja": ("サーバーの鍵を確認した。", "今日もサーバーの鍵を確認した。", "サーバーの鍵をまた確認しました。"),
}  # fmt: skip


@pytest.mark.parametrize("language", DEEDS)
def test_a_skill_is_found_in_notes_in_nine_languages(crystals: Crystals, language: str) -> None:
    crystals.learn(
        Crystal(text, Origin.SCRATCH, AT + timedelta(days=day), salience(text, Trust.AGENT).kind)
        for day, text in enumerate(DEEDS[language])
    )
    (skill,) = emerging_skills(crystals)
    assert skill.sessions >= 2
    assert skill.pattern.rstrip(".。") in {text.rstrip(".。") for text in DEEDS[language]}


def test_a_question_leaves_two_weeks_after_it_was_asked_last_whatever_raised_it(crystals: Crystals) -> None:
    questions = Questions(crystals.connection)
    for cause in Cause:
        questions.raise_(f"{cause}?", cause, AT)
    questions.raise_(BILLING, Cause.QUESTION, AT)
    questions.raise_("who owns billing", Cause.MISS, AT + timedelta(days=10))
    assert questions.sweep(AT + timedelta(days=14), 500) == 0
    assert questions.sweep(AT + timedelta(days=14, seconds=1), 500) == len(Cause)
    assert [(gap.question, gap.times) for gap in questions.open(9)] == [(BILLING, 2)]
    assert questions.sweep(AT + timedelta(days=25), 500) == 1


# --- forgotten


def test_what_is_removed_is_in_no_table_and_neither_its_words_nor_its_vector_in_the_file(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "state.db")
    connection.execute("PRAGMA secure_delete = ON")
    crystals = Crystals(connection)
    embedder, secret = BagOfWords(), _note("the passphrase is xylophonequartz", session="s")
    vector = embedder.embed([secret.text])[0].astype("<f2").tobytes()
    crystals.learn([secret, *(_note(f"note {number}") for number in range(300))])
    crystals.vectors.embed_pending(embedder, 1_000)
    assert crystals.remove([secret.id, "0" * 32]) == [secret.id]
    assert crystals.get([secret.id]) == []
    assert crystals.sources(secret.id) == []
    assert crystals.vectors.vector_count() == 300
    assert not full_text.is_torn(connection)
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"xylophon" not in content
    assert vector not in content
    connection.close()


def test_vectors_of_two_models_are_never_mixed(crystals: Crystals) -> None:
    vectors = crystals.vectors
    assert vectors.model() == ""
    crystals.learn([_note("one"), _note("two")])
    vectors.embed_pending(BagOfWords("old"))
    assert vectors.model() == "old"
    assert vectors.embed_pending(BagOfWords("new"), 1) == 1
    assert vectors.model() == "new"
    assert vectors.waiting() == (1, 1)
    assert vectors.vector_count() == 1
    assert not vectors.use_model("new")
