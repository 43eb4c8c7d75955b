"""Hypothesis strategies for texts of MEMORY.md, from well-formed ones to arbitrary ones."""

from hypothesis import strategies as st

from state.document.sections import NO_FEED, PLACEHOLDER, POINTER_GUIDE, SKILL_GUIDE, TITLE, SectionName
from state.text.line import as_line

NEWLINES = ("\n", "\r\n")
_STAMP = "_Last dream: 2026-03-12T14:30:00Z | Mood: calm_"

words = st.sampled_from("Anna deploys on Fridays port 8080 naïve 重要 会议 Straße 2026-03-20 🚀 C++ `x`".split())
sentences = st.lists(words, min_size=1, max_size=6).map(" ".join)
markers = st.sampled_from(["- ", "* ", "+ ", "1. ", "2) ", " - ", "-\t"])

_HEADINGS = [
    TITLE, "# working memory STATE", "# Another title", "##", "## ", "#hashtag", "### The Bond", "###### deep",
    "## My own section", "   ## indented", "\ufeff# Working Memory State",
    *(f"## {name.value}" for name in SectionName), "## The Bond (Oxytocin-Weighted)", "## **The Bond**",
    "## the niche:", "## The Phenotype ##", "##\tActive Context (Dopamine/Cortisol-Weighted)",
    "## The Bond (a) (b)", "# The Bond",
]  # fmt: skip
_FILLER = [
    "", "", " ", "\t", "---", "* * *", "___", "```", "````", "~~~", "  ```", "```python", "```inline``` code",
    "- ```", "<!-- pinned -->", "<!-- a comment", "-->", "<!-- one --> text", _STAMP, "*Last dream: never*",
    PLACEHOLDER, POINTER_GUIDE, SKILL_GUIDE, NO_FEED, "- _Nothing yet._", "- ", "-", "+ ", "1.", "- \u200b", "TBD",
    "{topic}",
]  # fmt: skip
_LINES = [
    "- a", "- a", "* b 📌", "- c <!-- pinned -->", "  continued", "\tcontinued", "  - nested", "    - deeper",
    "- [ ] a task", "paragraph", "> quoted", "| a | b |", "line\u2028separated\u2029here\x85and\x0bthere\x0c",
    "lone\rreturn", "- Topic → search: `rare words here`", "- Refactoring → Confidence: 80% | Occurrences: 4",
    "Placeholder images must be replaced before launch", "To be added by Friday: the invoice",
]  # fmt: skip
rows = st.one_of(
    st.sampled_from(_HEADINGS),
    st.sampled_from(_FILLER),
    st.sampled_from(_LINES),
    st.sampled_from(_LINES),
    st.builds(lambda marker, text: marker + text, markers, sentences),
    sentences,
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Rows of every kind in any order, with uniform or mixed line ends, perhaps none at the end."""
    lines = draw(st.lists(rows, max_size=24))
    mixture = draw(st.sampled_from([("\n",), ("\r\n",), NEWLINES]))
    text = "".join(row + draw(st.sampled_from(mixture)) for row in lines)
    return text if draw(st.booleans()) else text.rstrip("\r\n")


@st.composite
def memories(draw: st.DrawFn) -> str:
    """A MEMORY.md as dreams and people leave it: the title, most sections, lines, and text of the owner's."""
    newline = draw(st.sampled_from(NEWLINES))
    out = [TITLE, "", _STAMP, ""]
    names = draw(st.permutations(list(SectionName))) if draw(st.integers(0, 4)) == 0 else list(SectionName)
    for name in names:
        if draw(st.integers(0, 9)) == 0:
            continue
        out += [
            f"## {name.value}" + draw(st.sampled_from(["", "", " (weighted)"])),
            *draw(st.sampled_from([[""], []])),
        ]
        out += draw(st.lists(_memory_rows, max_size=5))
        out += draw(st.sampled_from([[""], ["", ""], []]))
        if draw(st.integers(0, 9)) == 0:
            out += ["## Mine", "", "my own text", ""]
    text = newline.join(out)
    return text + newline if draw(st.booleans()) else text


_memory_rows = st.one_of(
    st.builds(lambda text: "- " + text, sentences),
    st.builds(lambda text: "- " + text, sentences),
    sentences,
    st.sampled_from(["", "", "- a", "* b 📌", "### Sub", "<!-- hint -->", "---", PLACEHOLDER, "  more", "- TBD"]),
)
any_text = st.one_of(texts(), memories(), st.text(st.characters(exclude_categories=["Cs"]), max_size=60))

# A dream's lines have passed `as_line`: each is one row that parses as a line.
new_lines = st.one_of(
    sentences,
    st.sampled_from(
        ["a", "b", "c", "A revised line with 42", "Topic → search: `kw`", "1. first", "``code``", "x" * 240]
    ),
).map(lambda text: text if "search:" in text else as_line(text))
