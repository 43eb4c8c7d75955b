"""Hostile texts: a page must show them literally, whatever browser, htmx, template or stream could make of them.

Each has a number, and a marker by which it is found on a page. If it runs, it calls `__born(number)` or requests
`/born/number` from the page's server or from a port where nobody listens. If it becomes an element, that has an
attribute `data-born`. `tests/support/browser.py::born` lists such effects.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_WORDS = re.compile(r"@(RUN|URL|PATH|NAME)@")
_LAYOUT = "@MARK@ @TEXT@"
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# The most characters of a text in a note, and in a name or an id.
NOTE, NAME = 12_000, 200


@dataclass(frozen=True, slots=True)
class HostileText:
    """One text: number, name, the attack alone (`body`) and with its marker (`text`), and what must not happen."""

    number: int
    name: str
    body: str
    text: str
    never: str

    @property
    def mark(self) -> str:
        """Return the marker, which a page shows if it shows the text."""
        return _mark(self.number)

    @property
    def line(self) -> str:
        """Return the text on one line, cut to a note's length, without characters that MEMORY.md cannot hold."""
        return self.short(NOTE)

    @property
    def label(self) -> str:
        """Return the text on one short line, for names, ids, tags, files and causes."""
        return self.short(NAME)

    def short(self, length: int) -> str:
        """Return the text on one line of at most `length` characters, the marker first if it is cut."""
        return _short(self, length)


@cache
def _short(one: HostileText, length: int) -> str:
    line = _BREAKS.sub(" ", one.text).strip()
    whole = line if len(line) <= length else f"{one.mark} {one.body}"
    return _BREAKS.sub(" ", whole).strip()[:length].strip()


def _mark(number: int) -> str:
    return f"mark-{number:04d}"


def _large() -> dict[str, str]:
    """Return texts that are too long, too deeply nested or too tall to be in a file."""
    return {
        "one_word": "w" * 1_000_000,
        "words": "many words " * 20_000,
        "lines": "a line\n" * 50_000,
        "empty_lines": "\n" * 10_000,
        "brackets": "<" * 100_000,
        "ampersands": "&" * 100_000,
        "quotes": "\"'" * 50_000,
        "deep": "<b data-born>" * 10_000,
        "attributes": "<img data-born " + "a=b " * 10_000 + "src=x onerror=@RUN@>",
        "spaces": "a" + " " * 100_000 + "b",
        "marks_on_a_letter": "Z" + "\u0335\u0321\u0489\u035c\u0327" * 1_000,
        "marks_everywhere": "".join(letter + "\u030d\u0316\u0334" * 12 for letter in "flood of marks " * 20),
        "overrides": "\u202e" * 5_000,
        "wide": "\ufdfd" * 5_000,
        "emoji": "👨‍👩‍👧" * 5_000,
        "template": "{{ x }}" * 20_000,
        "markdown": "[" * 50_000 + "](x)" * 50_000,
        "stars": "*a_" * 30_000,
    }


def _all() -> tuple[HostileText, ...]:
    written = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    written["large"] = {"never": "the page breaks, hangs, or grows beyond its measure", **_large()}
    found: list[HostileText] = []
    for family, row in written.items():
        never, layout = row.pop("never"), row.pop("layout", _LAYOUT)
        for name, body in row.items():
            number = len(found) + 1
            found.append(_text(number, f"{family}-{name.replace('_', '-')}", body, layout, never))
    return tuple(found)


def _text(number: int, name: str, body: str, layout: str, never: str) -> HostileText:
    words = {
        "RUN": f"__born({number})",
        "URL": f"http://127.0.0.1:9/born/{number}",
        "PATH": f"/born/{number}",
        "NAME": name,
    }
    body = _WORDS.sub(lambda word: words[word[1]], body)
    return HostileText(number, name, body, layout.replace("@MARK@", _mark(number)).replace("@TEXT@", body), never)


ALL = _all()
BY_NAME = {one.name: one for one in ALL}
