"""What says the same as a sentence, and what a text says beside it; what has only its words says something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes.statement import Likeness, Statement, found_in, without
from state.text.words import content_terms

OFFICE = "Mara's office is in Hamburg-Altona."
PORT = "The staging server listens on port 8080"


def found(text: str, wrong: str, *, is_source: bool = False) -> tuple[str, str]:
    """What of the text surely says it, and what stays."""
    one = found_in(text, Statement.each_of(wrong), is_source=is_source)
    if one is None or one.likeness is not Likeness.SAME:
        return "", text
    return "|".join(text[slice(*span)] for span in one.spans), without(text, one.spans)


@pytest.mark.parametrize(
    ("text", "said", "rest"),
    [
        ("mara's OFFICE is in hamburg altona", "mara's OFFICE is in hamburg altona", ""),
        (
            "Mara's birthday is 3 May, and her office is in Hamburg-Altona.",
            "her office is in Hamburg-Altona",
            "Mara's birthday is 3 May.",
        ),
        (
            "Mara's office is in Hamburg-Altona, and her birthday is 3 May",
            "Mara's office is in Hamburg-Altona",
            "Her birthday is 3 May",
        ),
        (f"- Tea at four.\n- {OFFICE} She likes it.\n", OFFICE.rstrip("."), "- Tea at four.\n- She likes it."),
        ("Mara: the office is in Hamburg-Altona", "Mara: the office is in Hamburg-Altona", ""),
        ("Maras Büro ist in Hamburg-Altona; der Schlüssel hängt am Tor", "", None),
    ],
)
def test_what_says_the_same_is_cut_out_and_the_other_half_stays(text: str, said: str, rest: str | None) -> None:
    assert found(text, OFFICE) == (said, text if rest is None else rest)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (OFFICE, "Mara's office is in Hamburg-Eppendorf."),
        (OFFICE, "Mara's office is not in Hamburg-Altona."),
        (OFFICE, "Mara's former office is in Hamburg-Altona."),
        (OFFICE, "Where is Mara's office in Hamburg-Altona?"),
        (OFFICE, "Ingrid's office is in Hamburg-Altona. Mara's birthday is 3 May."),
        (OFFICE, "Mara's and Ingrid's office is in Hamburg-Altona."),
        (OFFICE, "Mara's office is in Hamburg-Altona until 1 December."),
        (OFFICE, "Mara's birthday is 3 May."),
        ("Mara gave Ingrid the key of the archive", "Ingrid gave Mara the key of the archive"),
        ("Ada prefers tea in the morning", "Ada prefers coffee in the morning"),
        ("Ada prefers tea in the morning", "Ada prefers tea"),
        (PORT, "The production server listens on port 8080"),
        (PORT, "The staging server listens on port 9090"),
        (PORT, "The server listens on port 8080"),
    ],
)
def test_what_only_shares_its_words_says_something_else(wrong: str, text: str) -> None:
    assert found(text, wrong) == ("", text)


def test_what_a_line_was_made_of_says_it_in_other_words() -> None:
    assert found("Mara moved to the Altona office", OFFICE, is_source=True)[0]
    assert found("Mara likes trams", OFFICE, is_source=True) == ("", "Mara likes trams")


SENTENCES = st.lists(
    st.sampled_from(
        [
            "Ada likes tea.",
            "The port is 8080.",
            "Grace plays chess, and Ada sings.",
            "- Tram 5 is late",
            "東京に住む。",
        ]
    ),
    min_size=1,
    max_size=6,
)


@given(SENTENCES, st.sampled_from([" ", "\n"]))
def test_cutting_leaves_all_other_words_in_their_order(said: list[str], between: str) -> None:
    text = between.join(said)
    for wrong in said:
        cut, rest = found(text, wrong)
        if cut:
            assert content_terms(rest) <= content_terms(text)
            assert content_terms(text) <= content_terms(rest) | content_terms(cut)
