"""What is buried is known again in other spellings and with one word more or less; what is not it, is left alone."""

import base64
import re
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.forgetting.known import Known, Target, spans
from state.stores.database.connection import open_database
from state.stores.database.tombstones import TombstoneStore
from tests.support.cases import cases
from tests.support.in_memory import trial
from tests.support.long_variants import fewer

NOW = datetime(2026, 3, 12, tzinfo=UTC)
REPOSITORY = Path(__file__).parents[3]
SECRET = "Ada's vault code is 4711"
AROUND = ("Miez is a cat. By the way, ", "! Rex is a dog.")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SPELLINGS: dict[str, list[str]] = cases(__file__)["SPELLINGS"]
OTHERS: dict[str, list[str]] = cases(__file__)["OTHERS"]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path_factory.mktemp("respelt") / "state.db")
    yield connection
    connection.close()


def buried(connection: sqlite3.Connection, *texts: str) -> Known:
    with trial(connection):
        forgotten = TombstoneStore(connection)
        for text in texts:
            forgotten.block(Target.of(text), NOW)
        return forgotten.tombstones()


@pytest.mark.parametrize(("text", "other"), [(text, other) for text, every in SPELLINGS.items() for other in every])
def test_another_spelling_is_known_again_and_no_more_goes(
    connection: sqlite3.Connection, text: str, other: str
) -> None:
    known = buried(connection, text)
    assert known.without(other) == "" or not known.found(known.without(other))
    assert known.found(other)
    told = other.join(AROUND)
    assert known.without(told).startswith("Miez is a cat.")
    assert known.without(told).endswith("Rex is a dog.")
    assert not known.found(known.without(told))
    masked = known.masked(told)
    assert masked.startswith(AROUND[0])
    assert masked.endswith(AROUND[1])
    assert not known.found(masked)


@pytest.mark.parametrize(("text", "other"), [(text, other) for text, every in OTHERS.items() for other in every])
def test_what_is_another_s_is_left_alone(connection: sqlite3.Connection, text: str, other: str) -> None:
    known = buried(connection, text)
    assert known.found(other) == ()
    assert known.found(other.join(AROUND)) == ()


def test_ordinary_text_is_left_alone(connection: sqlite3.Connection) -> None:
    """Whatever is forgotten of names, numbers and facts, nothing in a thousand paragraphs of others is found."""
    facts = [
        "Ada Lovelace", "Ann Lee", "Eva", "Bo Ek", "Jan Maat", "Max", "Rose Field", "May Day", "+49 170 5556677",
        "4711",
        "8080", "12,000", "2024-01-11", "Ada likes green tea", "Ada is in the office on Monday", "the port is 9999",
        "her salary is 85,000 a year", "the key of the cellar is under the mat", "Bo drinks", "we moved to Bonn",
        "the wife of Jan is ill", "Deploys of the shop are on Thursday after lunch", "it is a secret", "call me back",
    ]  # fmt: skip
    known = buried(connection, *facts)
    paragraphs = [
        paragraph
        for path in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"), *REPOSITORY.glob("state/stores/*/*.py"))
        for paragraph in re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
    ]
    assert len(paragraphs) > 1_000
    targets = [Target.of(fact) for fact in facts]
    hits = [
        paragraph[start:end]
        for paragraph in paragraphs[:: fewer(4, 1)]
        for start, end in set(known.found(paragraph))
        - set(spans(paragraph, targets))  # those are the words themselves
    ]
    assert hits == []


def test_what_is_lifted_is_lifted_in_every_spelling(connection: sqlite3.Connection) -> None:
    for text, spellings in SPELLINGS.items():
        for by_hand in (False, True):
            with trial(connection):
                forgotten = TombstoneStore(connection)
                forgotten.block(Target.of(text), NOW)
                assert forgotten.unblock_all_of(text) if by_hand else forgotten.unblock(text)
                assert not any(map(forgotten.holds, spellings))
                assert not forgotten.tombstones()
