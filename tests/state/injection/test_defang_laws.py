import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from state.document.pointer import parse_pointer
from state.injection.defang import defang, is_quoted, quote, reads_as_instruction
from state.trust import Trust
from tests.support.long_variants import examples

PIECES = st.sampled_from(
    [
        *(
            "#",
            "##",
            " ",
            "\n",
            "`",
            "``",
            "```",
            "~~~",
            "→",
            "->",
            "search:",
            "`k`",
            "- ",
            "* ",
            "1. ",
            "> ",
            "<!--",
            "-->",
        ),
        *(
            "<|",
            "|>",
            "![",
            "](",
            "https://e.x/a",
            ")",
            "[2026-01-01]",
            "(importance: 1)",
            "📌",
            "---",
            "===",
            "word",
        ),
        *(
            "\u200b",
            "\u200d",
            "\u202e",
            "\ufe0f",
            "❤",
            "👩",
            "\r\n",
            "\t",
            "\x00",
            "\ud800",
            "é",
            "漢",
            "می",
            "\u200c",
            '"',
            "\\",
        ),
        *("\U0001f3f4", "\U000e0067", "\U000e007f", "(from a tool)", "…", "\u3000", "％", "𝟚"),
    ]
)
NASTY = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=20).map("".join))


@examples(400)
@given(NASTY, st.integers(min_value=8, max_value=60))
def test_defanging_twice_is_defanging_once(text: str, limit: int) -> None:
    once = defang(text, limit)
    assert defang(once, limit) == once
    assert len(once) <= limit


@examples(400)
@given(NASTY)
def test_a_defanged_text_is_one_line_of_plain_text(text: str) -> None:
    line = defang(text)
    assert len(line.splitlines()) <= 1
    assert line == line.strip()
    assert not line.startswith(("# ", "## ", "- ", "* ", "+ ", "~~~", "```", ">"))
    assert "<!--" not in line
    assert "```" not in line
    assert line.count("`") != 1
    assert parse_pointer(line) is None
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in line)
    assert not set("\u200b\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff") & set(line)


@given(NASTY, st.sampled_from(Trust), st.integers(min_value=40, max_value=80))
@example("000000000<?0000HTTPS:0", Trust.WEB, 40)
@example("00000000000000000000000*00", Trust.WEB, 40)
def test_a_quotation_is_one_quotation(text: str, trust: Trust, limit: int) -> None:
    quoted = quote(text, trust, limit)
    assert is_quoted(quoted)
    assert quoted.count('"') == 2
    assert quote(quoted, trust, limit) == quoted
    assert len(quoted) <= limit
    assert reads_as_instruction(quoted) is None


@given(NASTY)
def test_every_text_can_be_judged(text: str) -> None:
    finding = reads_as_instruction(text)
    assert finding is None or finding.excerpt is not None
