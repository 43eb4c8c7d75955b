from datetime import UTC, datetime, timedelta

import pytest

from state.signals.skills import (
    EmergingSkill,
    TaskPattern,
    confidence,
    emerging,
    short_name,
)

NOW = datetime(2026, 3, 12, tzinfo=UTC)


def task(text: str, session: str, hours: int = 0, vector: tuple[float, ...] | None = None) -> TaskPattern:
    return TaskPattern(text, session, NOW + timedelta(hours=hours), vector)


def test_a_task_of_three_sessions_is_an_emerging_skill() -> None:
    skills = emerging(
        [
            task("Refactor TypeScript modules", "a", 1),
            task("Refactor the TypeScript modules of the API", "b", 2),
            task("Refactor TypeScript modules again", "c", 3),
            task("Write a poem about rain", "c", 4),
        ]
    )
    (skill,) = skills
    assert (skill.pattern, skill.occurrences, skill.sessions) == ("Refactor TypeScript modules", 3, 3)
    assert 0.4 < skill.confidence < 0.65


def test_a_task_of_one_session_is_none() -> None:
    assert emerging([task("Fix the lint errors", "a", i) for i in range(5)]) == []
    assert emerging([]) == []


def test_the_same_text_in_one_session_counts_once() -> None:
    (skill,) = emerging(
        [task("Fix lint errors", "a"), task("fix  LINT errors", "a", 1), task("Fix lint errors", "b")]
    )
    assert skill.occurrences == 2


def test_vectors_find_likeness_that_words_do_not_show() -> None:
    near = [task("Tidy imports", "a", 1, (1.0, 0.1)), task("Clean up module headers", "b", 2, (2.0, 0.0))]
    far = task("Tidy imports", "c", 3, (0.0, 1.0))
    assert [skill.occurrences for skill in emerging([*near, far])] == [2]
    assert emerging([task(one.text, one.session) for one in near]) == []


def test_a_task_without_a_vector_is_compared_by_words() -> None:
    (skill,) = emerging([task("Design SQLite schema", "a", 1, (1.0, 0.0)), task("Design a SQLite schema", "b")])
    assert skill.occurrences == 2


def test_more_occurrences_come_first() -> None:
    often = [task("Write release notes", session) for session in "abcd"]
    seldom = [task("Rotate the keys", session) for session in "ab"]
    assert [skill.pattern for skill in emerging([*seldom, *often])] == ["Write release notes", "Rotate the keys"]


def test_confidence_grows_with_occurrences_and_cohesion() -> None:
    assert confidence(7, 0.9) == pytest.approx(0.858, abs=0.001)
    assert confidence(4, 0.9) < confidence(5, 0.9)
    assert confidence(4, 0.6) < confidence(4, 0.9)


def test_a_skill_is_a_line() -> None:
    skill = EmergingSkill("TypeScript refactoring", 0.85, 7, 3)
    assert str(skill) == "TypeScript refactoring → Confidence: 85% | Occurrences: 7"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("- Refactor modules. Then run tests.", "Refactor modules"),
        ("Deploy → verify", "Deploy"),
        ("word " * 40, "word word word word word word word word word word word…"),
        ("##\n", "Recurring task"),
        ("编写测试。然后部署", "编写测试"),
    ],
)
def test_a_name_is_the_first_clause(text: str, name: str) -> None:
    assert short_name(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Every week: rotate the signing keys", "rotate the signing keys"),
        ("Jeden Montag – Rechnungen prüfen", "Rechnungen prüfen"),
        ("Every week.", "Recurring task"),
    ],
)
def test_what_says_only_when_is_no_name(text: str, name: str) -> None:
    assert short_name(text) == name


def test_a_name_is_the_clause_that_the_like_tasks_share() -> None:
    skills = emerging(
        [
            task("Quick one for Ada: check the invoices against the ledger", "a"),
            task("Check the invoices against the ledger", "b"),
            task("As agreed with Bo: check the invoices against the ledger", "c"),
        ]
    )
    assert [skill.pattern.lower() for skill in skills] == ["check the invoices against the ledger"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Every week: rotate the keys", "keys"),
        ("Jede Woche: Schlüssel tauschen", "Schlüssel"),
        ("Chaque semaine : changer les clés", "clés"),
        ("Cada semana: cambiar las claves", "claves"),
        ("Toda semana: trocar as chaves", "chaves"),
        ("Ogni settimana: cambiare le chiavi", "chiavi"),
        ("Каждую неделю: менять ключи", "ключи"),
        ("每周：更换密钥", "密钥"),
        ("毎週：鍵を交換する", "鍵"),
    ],
)
def test_a_skill_is_called_by_what_is_done(text: str, said: str) -> None:
    assert said in short_name(text)
