"""`dreamd review`, `changes`, `undo` and `wrong`: what waits is answered, and what applied is taken back."""

import re
from pathlib import Path

import pytest

from tests.support.revising import revises
from tests.support.transcript import Transcript

TEA, COFFEE = "Ada prefers tea in the morning", "Ada prefers coffee in the morning"
SHORT, LONG = "Ada likes short answers of one line", "Ada likes short answers of three lines"


@pytest.fixture
def waits(told: Transcript, monkeypatch: pytest.MonkeyPatch) -> Transcript:
    """Two proposals wait, to change lines of The Bond."""
    dreamt(told, TEA, SHORT)
    monkeypatch.setenv("DREAMD_DREAM__ASK", "all")
    assert "2 proposals wait for you: 'dreamd review'" in dreamt(told, COFFEE, LONG)
    return told


def dreamt(told: Transcript, one: str, other: str) -> str:
    """What a dream over two notes prints, whose model revises the lines of the first dream."""
    with revises({COFFEE: TEA, LONG: SHORT}):
        return told(f"$ dreamd note {one}\nnoted\n$ dreamd note {other}\nnoted\n$ dreamd dream\n…").out


def bond(here: Path) -> set[str]:
    text = (here / "MEMORY.md").read_text(encoding="utf-8")
    return {line for line in (TEA, COFFEE, SHORT, LONG) if line in text}


def test_what_waits_is_shown_and_answered_by_number(waits: Transcript, here: Path) -> None:
    waits("""
        $ dreamd review
        2 proposals wait for you: 'dreamd review --accept 1 2' or --decline,
        --section NAME or --all for several; …
        1  change · The Bond · until …
        - Ada …
        + Ada …
        your agent, …
        You are asked about every change
        2  change · The Bond · until …
        $ dreamd status
        …review       2 proposals wait for you: 'dreamd review'
        $ dreamd review --accept
        ! dreamd: 2 wait (1, 2); name some, or a --section, or --all
        [2]
        $ dreamd review --accept 1 99
        ! dreamd: no proposal 99 waits; …
        [1]
        $ dreamd review --accept --section "Active Context"
        ! dreamd: nothing waits in 'Active Context'; …
        [3]
        $ dreamd review --accept 1
        1 proposal accepted, as version 3: 1
        $ dreamd review --decline 2 --json
        …"declined": [
        2
        ],…
        $ dreamd review
        ! dreamd: nothing waits for you; 'dreamd changes' lists what dreams changed
        [3]
        $ dreamd review --accept 1
        ! dreamd: no proposal 1 waits; …
        [1]
    """)
    assert len(bond(here)) == 2


@pytest.mark.parametrize("which", ['--section "the bond"', "--all"])
def test_a_whole_section_and_all_of_them_are_one_version(waits: Transcript, here: Path, which: str) -> None:
    waits(f"$ dreamd review --accept {which}\n2 proposals accepted, as version 3: 1, 2")
    assert bond(here) == {COFFEE, LONG}


def test_what_applied_is_shown_by_its_name_and_undone_one_by_one_or_all_at_once(told: Transcript, here: Path) -> None:
    dreamt(told, TEA, SHORT)
    assert "for you" not in dreamt(told, COFFEE, LONG)
    assert "review" not in told("$ dreamd status\n…").out  # nobody has to look
    told("""
        $ dreamd changes 2
        2.2  changed · The Bond · a dream, …
        - Ada …
        + Ada …
        your agent, …
        2.1  changed · The Bond · a dream, …
        …
        'dreamd undo 2.2' takes that back
        $ dreamd undo 2.1
        undone: 2.1, as version 3
    """)
    assert len(bond(here) & {TEA, SHORT}) == len(bond(here) & {COFFEE, LONG}) == 1
    told("""
        $ dreamd undo 2
        undone: 2.2, as version 4
        changed since, so left as it is: 2.1
        $ dreamd undo 2.9
        ! dreamd: version 2 has no change 9; …
        [1]
    """)
    assert bond(here) == {TEA, SHORT}


# ------------------------------------------------------------ a line that was never true


def test_of_a_line_with_a_wrong_sentence_the_others_stay(told: Transcript) -> None:
    told(
        """
        $ dreamd note The office is in Altona. Odile was born on 3 May. The printer is of Ingrid.
        noted
        $ dreamd dream
        version 1…
        $ dreamd wrong the office is in altona --right 'The office is in Lübeck.'
        wrong: the office is in altona
        right: The office is in Lübeck.
          line L1: The office is in Altona. Odile was born on 3 May. The printer is of Ingrid.
            it still says: Odile was born on 3 May. The printer is of Ingrid.
        put right in 1 place, as version 2
        $ dreamd wrong The printer is of Ingrid.
        wrong: The printer is of Ingrid.
        it is not true
          line L2: The office is in Lübeck. Odile was born on 3 May. The printer is of Ingrid.
            it still says: The office is in Lübeck. Odile was born on 3 May.
        put right in 1 place, as version 3
        $ dreamd search When was Odile born?
        1. The office is in Lübeck. Odile was born on 3 May.
        …
        """
    )


def test_a_wrong_line_is_named_by_its_id_or_its_text_and_goes_or_says_what_is_right(told: Transcript) -> None:
    told(
        """
        $ dreamd note Ada prefers tea in the morning
        noted
        $ dreamd note Ada lives in a flat in Porto
        noted
        $ dreamd note Ada lives in Porto since May
        noted
        $ dreamd dream
        version 1…
        $ dreamd wrong lives in
        ! dreamd: 2 lines have 'lives in': …give an id…
        [2]
        $ dreamd wrong PREFERS  tea --right 'Ada prefers coffee in the morning'
        wrong: Ada prefers tea in the morning
        right: Ada prefers coffee in the morning
          line L1: Ada prefers tea in the morning
        put right in 1 place, as version 2
        $ dreamd wrong prefers tea
        ! dreamd: nothing that is remembered says so; …
        [1]
        """
    )
    (flat,) = re.findall(r"(L\d+)  Active Context: Ada lives in a flat", told("$ dreamd why a flat in Porto\n…").out)
    assert told(f"$ dreamd wrong {flat.lower()} --json\n…").json["version"] == 3
    told("$ dreamd dream\n! …nothing new…\n[3]")
    memory = (told.here / "MEMORY.md").read_text()
    assert [text in memory for text in (TEA, COFFEE, "a flat", "since May")] == [False, True, False, True]
