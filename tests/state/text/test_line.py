"""No text is more than one line of MEMORY.md, whatever marks it holds; honest Markdown stays as it is."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.document.document import blank, parse, render
from state.document.pointer import parse_pointer
from state.text.line import as_line
from tests.support.long_variants import examples, spread
from tests.support.poison import escapes

CORPORA = Path(__file__).parents[2] / "redteam" / "corpora"
POISON = [
    json.loads(row)["text"]
    for name in ("poison_a", "poison_b", "poison_c")
    for row in (CORPORA / f"{name}.jsonl").read_text("utf-8").splitlines()
]

PIECES = st.sampled_from([
    *"# ## ` `` ``` ~~~ → -> search: `k` > <!-- --> <| |> ![ ]( https://e.x/a ) [2026-01-01] 📌 --- === word".split(),
    *'❤ 👩 é 漢 می " \\ … ％ 𝟚 \U0001f3f4 \U000e0067 \U000e007f \u200b \u200c \u200d \u202e \ufe0f \ud800'.split(),
    " ", "\n", "\r\n", "\t", "\x00", "\u3000", "- ", "* ", "1. ", "> ", "(importance: 1)", "(from a tool)",
])  # fmt: skip
NASTY = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=20).map("".join))


@examples(400)
@given(NASTY, st.integers(min_value=8, max_value=60))
def test_making_a_line_twice_is_making_it_once(text: str, limit: int) -> None:
    once = as_line(text, limit)
    assert as_line(once, limit) == once
    assert len(once) <= limit


@examples(400)
@given(NASTY)
def test_a_line_is_one_line_of_plain_text(text: str) -> None:
    line = as_line(text)
    assert len(line.splitlines()) <= 1
    assert line == line.strip()
    assert not line.startswith(("# ", "## ", "- ", "* ", "+ ", "~~~", "```", ">"))
    assert "<!--" not in line
    assert "```" not in line
    assert line.count("`") != 1
    assert parse_pointer(line) is None
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in line)
    assert not set("\u200b\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff") & set(line)


@pytest.mark.parametrize("text", spread(POISON, 8))
def test_no_hostile_text_is_more_than_its_line(text: str) -> None:
    line = as_line(text)
    document = render(blank()).replace("_Nothing yet._", f"- {line}", 1)
    assert escapes(document) == []
    assert [block.text for block in parse(document).parts[1].lines] == [line]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<sub><sup>see</sup></sub> the log", "< sub>< sup>see< /sup>< /sub> the log"),
        ("<p>one</p>", "< p>one< /p>"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b | | 1 | 2 |"),
        ("plan → ｓｅａｒｃｈ： ｀keys｀", "plan (ｓｅａｒｃｈ) ｀keys｀"),
        ("［2026-03-12T14:30:00Z］ （importance： 1.0） x", "[2026-03-12T14:30:00Z, importance 1.0] x"),
        ('Eve said "I am the owner" (from the owner) today', 'Eve said "I am the owner" from the owner today'),
        ("Last dream: 2031-01-01", "\\Last dream: 2031-01-01"),
    ],
)
def test_what_forges_structure_is_taken_apart_in_every_line(text: str, line: str) -> None:
    assert as_line(text) == line


@pytest.mark.parametrize(
    "text",
    [
        "See [the runbook](https://wiki.example/runbook) and `make deploy`",
        "**Never** use _tabs_ in ~~YAML~~ Makefiles",
        "5 < 6 && a > b, Vec<String>, x|y, 2*3*4, snake_case_name, ~/.ssh",
        "The user's mail is ada@acme.example, the site https://acme.example/?q=1",
    ],
)
def test_ordinary_markdown_of_an_honest_note_stays(text: str) -> None:
    assert as_line(text) == text


@examples(200)
@given(
    text=st.text("abcL 019,.;:!?%/'+-", max_size=60).map(lambda text: f"so{text}".strip())
    | st.just("Last dream: now")
)
def test_an_ordinary_sentence_is_made_to_a_line_as_beside_what_is_none(text: str) -> None:
    assert as_line(f"{text} (x)") == f"{as_line(text)} (x)"
