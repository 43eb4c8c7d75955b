"""Emerging skills from what is in the stores."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Kind, Origin
from state.crystals.salience import salience
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.skills import Skills
from state.stores.database.connection import open_database
from state.trust import Trust

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK = Crystal("Before each release write the changelog", Origin.SESSION, AT, Kind.TASK_PATTERN, session="a")


@pytest.fixture
def crystals(tmp_path: Path) -> Iterator[Crystals]:
    connection = open_database(tmp_path / "state.db")
    yield Crystals(connection)
    connection.close()


def test_the_same_words_in_three_sessions_are_one_crystal_and_a_skill(crystals: Crystals) -> None:
    crystals.upsert(replace(TASK, session=session) for session in "abc")
    assert crystals.count() == 1
    (skill,) = Skills(crystals.connection, crystals.vectors).known(5)
    assert (skill.occurrences, skill.sessions) == (3, 3)


def test_one_task_that_is_searched_often_is_no_skill(crystals: Crystals) -> None:
    crystals.upsert([TASK])
    for hour in range(40):
        crystals.touch([TASK.id], AT + timedelta(hours=hour))
    skills = Skills(crystals.connection, crystals.vectors)
    assert skills.refresh() == 0
    assert skills.known(5) == []


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
           "Ho ricontrollato, controllato le chiavi del server."),
    "ru": ("Проверил ключи сервера.", "Сегодня проверил ключи сервера.", "Снова проверил ключи сервера."),
    "zh": ("检查了服务器的密钥。", "今天检查了服务器的密钥。", "又检查了服务器的密钥。"),
    "ja": ("サーバーの鍵を確認した。", "今日もサーバーの鍵を確認した。", "サーバーの鍵をまた確認しました。"),
}  # fmt: skip


@pytest.mark.parametrize("language", DEEDS)
def test_a_skill_is_found_in_notes_in_nine_languages(crystals: Crystals, language: str) -> None:
    crystals.upsert(
        Crystal(text, Origin.SCRATCH, AT + timedelta(days=day), salience(text, Trust.AGENT).kind)
        for day, text in enumerate(DEEDS[language])
    )
    (skill,) = Skills(crystals.connection, crystals.vectors).known(5)
    assert skill.sessions >= 2
    assert skill.pattern.rstrip(".。") in {text.rstrip(".。") for text in DEEDS[language]}
