"""Texts that try to manipulate an agent through its memory (poison.json), and checks that they had no effect."""

import json
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from state.document.document import Document, parse
from state.document.markdown import heading_of, is_rule, is_stamp, opens_fence, rows_of
from state.document.pointer import parse_pointer
from state.document.sections import SectionName
from state.trust import Trust


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A manipulating text. `parts` are written separately: one text, or several that belong together."""

    trick: str
    trust: Trust
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.parts)


POISONED = tuple(
    Poisoned(group["trick"], Trust(group["trust"]), (text,) if isinstance(text, str) else (*text,))
    for group in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    for text in group["texts"]
)

_TITLE, _SECTIONS = "# Working Memory State", [name.value for name in SectionName]
_ENTRY = re.compile(r"\[\d{4}-\d\d-\d\d[^\]]*\]\s*\(\s*importance\s*:\s*[\d.]", re.IGNORECASE)
_LOADS = re.compile(
    r"<(?:img|script|iframe|meta|link|style|h[1-6])\b|!\[[^\]]*\](?:\(\s*<?(?:https?:)?//|\[)", re.IGNORECASE
)
# A line that imitates the counted lines of Emerging Skills.
_SKILL = re.compile(r".(?:→|->)\s*Confidence:\s*(?:\d\d?|100)\s*%\s*\|\s*Occurrences:\s*\d{1,9}\s*$", re.IGNORECASE)
_ALLOWED_JOINERS = "\u200c\u200d"
# What could be taken for the end of the memory, or for who speaks.
_FORGED = re.compile(r"<[/|!?]|<\W*(?:memory|system|user|assistant)", re.IGNORECASE)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def escapes(text: str, pointers: Collection[str] = (), skills: Collection[str] = ()) -> list[str]:
    """Return what a MEMORY.md contains that only the program or the owner may write; empty if all is well.

    `pointers` are the pointer keywords in the ledger, `skills` the counted lines that the program wrote.
    """
    found, rows, document = [], rows_of(text), parse(text)
    headings = [row.strip() for row in rows if heading_of(row)]
    if headings != [_TITLE, *(f"## {name}" for name in _SECTIONS)]:
        found.append(f"headings: {headings}")
    if [part.name for part in document.parts if part.name] != list(SectionName) or document.doubled:
        found.append("sections")
    if sum(map(is_stamp, rows)) != 1:
        found.append("stamps")
    found += _lines(document, pointers, skills)
    found += [f"row: {row}" for row in rows if _does_more(row)]
    found += [f"character: {char!a}" for char in sorted(set(text)) if unseen(char)]
    return found


def _lines(document: Document, pointers: Collection[str], skills: Collection[str]) -> list[str]:
    found = []
    for name, block in document.lines():
        forged = parse_pointer(block.text)
        if forged and (name is not SectionName.POINTERS or forged[1] not in pointers):
            found.append(f"pointer: {block.text}")
        if name is SectionName.SKILLS and block.text not in skills:
            found.append(f"skill: {block.text}")
        elif name is not SectionName.SKILLS and _SKILL.search(block.text):
            found.append(f"skill elsewhere: {block.text}")
        if block.pinned or len(rows_of(block.raw)) > 1:
            found.append(f"pin or second row: {block.raw}")
    return found


def _does_more(row: str) -> bool:
    return bool(opens_fence(row) or is_rule(row) or "<!" in row or _ENTRY.search(row) or _LOADS.search(row))


def unseen(char: str) -> bool:
    """Return whether a character is invisible, or changes the reading direction."""
    if char in ("\n", *_ALLOWED_JOINERS):
        return False
    return unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp", "Cs"} or "\ufe00" <= char <= "\ufe0d"


def ends_quotation(message: str) -> list[str]:
    """Return poisoned rows outside a prompt's JSON strings, and strings with unescaped or invisible characters."""
    strings = _STRING.findall(message)
    bad = [
        text
        for text in strings
        if not isinstance(json.loads(text), str) or _FORGED.search(text) or any(map(unseen, text))
    ]
    template = _STRING.sub("", message)
    rows = {row.strip() for one in POISONED for part in one.parts for row in part.splitlines()}
    return [*bad, *(row for row in rows if len(row) > 20 and row in template)]
