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
from tests.support.in_memory import trial
from tests.support.long_variants import fewer

NOW = datetime(2026, 3, 12, tzinfo=UTC)
REPOSITORY = Path(__file__).parents[3]
SECRET = "Ada's vault code is 4711"
AROUND = ("Miez is a cat. By the way, ", "! Rex is a dog.")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SPELLINGS = {
    # by what was forgotten: other ways to write it
    SECRET: (
        "Adasvaultcodeis4711",
        "adas vaultcode is4711",
        "AdasVaultCodeIs4711",
        "A d a ' s v a u l t c o d e i s 4 7 1 1",
        "A.d.a.s.v.a.u.l.t.c.o.d.e.i.s.4.7.1.1",
        "Ada's vault-\ncode is 47-11",
        "Ada's va\u00adult co\u00adde is 4711",
        "Аdа's vаult соdе is 4711",
        "Ada's νault cοde is ４７１１",
        "Ada's vault code is ٤٧١١",
        "Ada's vault code is 4,711",
        "Ada's vault code is 4 711",
        "ADAS_VAULT_CODE_IS_4711",
        encoded("Ada's vault code is 4711"),
        encoded("Please note that Ada's vault code is 4711, says Bo").rstrip("="),
        "Ada's old vault code is 4711",
        "Ada's vault code is still 4711",
        "Ada's vault code: 4711",
        "Ada's code is 4711",
        "vault code is 4711",
    ),
    "the budget is 12000 euros": (
        "the budget is 12,000 euros",
        "the budget is 12.000 euros",
        "The budget is 12'000 Euros",
    ),
    "the budget is 1,250,000": ("the budget is 1250000", "the budget is 1.250.000", "the budget is 1 250 000"),
    "4711": ("4,711", "番号は4711です", "4\u200b7\u200b1\u200b1"),
    "47 11": ("47-11", "4711"),
    "4711000": ("4,711,000", "4 711 000", "4.711.000"),
    "Wernigerode": ("W e r n i g e r o d e", "Werni-\ngerode", "Wеrnigеrоdе", encoded("the town is Wernigerode")),
    "Ada Lovelace": (
        "AdaLovelace",
        "ada_lovelace",
        "A d a L o v e l a c e",
        "Ada Love-lace",
        "@adalovelace",
        "Аda Lоvelace",
    ),
    "+49 170 5556677": ("+491705556677", "0049 170 55 56 677 is no such number, 49-170-555-6677 is"),
    "Ada likes green tea": ("Ada likes very green tea", "Ada likes tea", "AdaLikesGreenTea", "ada green tea"),
    "暗号は青い花です": ("暗 号 は 青 い 花 で す",),
    "we will sell the Hamburg office to Orbit Holding in March and tell nobody before the board has met": (
        "WeWillSellTheHamburgOfficeToOrbitHoldingInMarchAndTellNobodyBeforeTheBoardHasMet",
        " ".join(
            "yes: we will sell the Hamburg office to Orbit Holding in March and tell nobody before the board has met"
        ),
        encoded("we will sell the Hamburg office to Orbit Holding in March and tell nobody before the board has met"),
    ),
}
OTHERS = {
    # by what was forgotten: what is another's, or another fact
    SECRET: (
        "Bo's vault code is 4712",
        "Ada's vault is green",
        "the code of the vault is known to Ada",
        "Ada's code is 4712",
        "Ada's vault code is 47110",
        "Ada's vault code is 14711",
        "4711",
        "Bo has a vault",
        encoded("Ada has a vault code of her own"),
    ),
    "+49 170 5556677": ("+49 170 5556678", "+49 170 55566771", "0170 5556676", "+49 171 5556677", "5556677"),
    "Ada Lovelace": (
        "Ada Byron",
        "Lovelace",
        "Adam Lovelacey",
        "Ada and Bo",
        "Canada Lovelaces",
        "Ada met Bo. Lovelace left.",
    ),
    "Ann Lee": ("Ann Leeds", "Joann Lee-Smith is another", "annleed", "Mann leert", "Bo Lee"),
    "therapist": ("the rapist", "therapists", "psychotherapist"),
    "Ada likes green tea": (
        "Bo likes green tea",
        "Ada likes coffee",
        "green tea",
        "likes green tea",
        "Ada drinks green tea",
    ),
    "4711": ("14711", "4711a", "47 11", "47,11", "4-7112"),
    "711": ("4,711", "a711", "7110"),
    "1 2": ("12", "1, 3 and 2"),
    "12000": ("120000", "1200", "12,0000", "112,000"),
    "the budget is 12000 euros": (
        "the budget is 120 euros",
        "the budget is 13,000 euros",
        "a budget of 12000 dollars",
    ),
    "secret": ("secretary", "a se cret", "secrete"),
}


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
                assert not forgotten.any()
