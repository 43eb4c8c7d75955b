"""MEMORY.md without secrets: each line by itself, and what a person put below its name together with that."""

import pytest

from state.document.redaction import redacted_line, redacted_lines
from state.secrets.policy import DEFAULT, Redaction

KEY = "\n".join(
    (
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        *["b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ" * 2] * 3,
        "-----END OPENSSH PRIVATE KEY-----",
    )
)
PHRASE = "legal winner thank year wave sausage worth useful legal winner thank yellow".split()
BESIDE = "The login of the printers is the company's"


def memory(*rows: str) -> str:
    return "# Working Memory State\n\n## Active Context\n\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("rows", "secret"),
    [
        pytest.param([f"- {BESIDE}", "- The router's password is Xy9!kQ-hunter2"], "hunter2", id="in one line"),
        pytest.param(["- The router's password is", "  Xy9!kQ-hunter2 since May"], "hunter2", id="a line goes on"),
        pytest.param(["Passwords:", "- router: Xy9!kQ-hunter2"], "hunter2", id="below a line with a colon"),
        pytest.param(
            ["- Passwords:", "", "- the garden gate", "- router: Xy9!kQ-hunter2"], "hunter2", id="in its list"
        ),
        pytest.param(
            ["", "## Passwords", "", f"- {BESIDE}", "- router: Xy9!kQ-hunter2"], "hunter2", id="own heading"
        ),
        pytest.param(["```", KEY, "```"], "b3BlbnNzaC1r", id="a key in a fence"),
        pytest.param([f"- {row}" for row in KEY.split("\n")[:3]] + ["", KEY], "b3BlbnNzaC1r", id="a key"),
        pytest.param([f"{at}. {word}" for at, word in enumerate(PHRASE, 1)], "sausage", id="a seed phrase"),
    ],
)
def test_what_a_person_typed_is_redacted_with_its_name(rows: list[str], secret: str) -> None:
    shown = redacted_lines(memory(*rows), DEFAULT)
    assert secret not in shown
    assert "[redacted: " in shown
    assert redacted_lines(shown, DEFAULT) == shown
    assert redacted_lines(memory(*rows), Redaction(on=False)) == memory(*rows)


def test_no_name_reaches_beyond_its_list() -> None:
    for above in (("Passwords:", "- router: none", ""), ("## Passwords", "", "## Active Context")):
        text = memory(*above, "- The M14 rain factor is `harbour-1350`")
        assert redacted_lines(text, DEFAULT) == text


def test_what_the_grounds_of_a_line_show_is_no_secret_in_it() -> None:
    line, note = "Henrike's login talk is called 'Xy9!kQ-hunter2'", "the title is 'Xy9!kQ-hunter2'"
    said = "The password of the talk is Xy9!kQ-hunter2"
    assert redacted_line(said, DEFAULT) != said
    assert redacted_line(said, DEFAULT, lambda _: [note]) == said
    assert redacted_line(said, DEFAULT, lambda _: [BESIDE, line.replace("hunter2", "hunter")]) != said
