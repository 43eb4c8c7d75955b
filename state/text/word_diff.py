"""Word diff: the words that differ between two versions of a line, to show them side by side."""

import difflib
import re
from dataclasses import dataclass

# Longer texts are compared as a whole: difflib's time grows quadratically.
_MOST_WORDS = 1_500
# A word, a number, date or time with the marks inside it, white space, or a mark; in scripts without spaces, each
# character.
_PARTS = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]|(?:[^\W\u3040-\u30ff\u3400-\u9fff]|(?<=\d)[.,:/'’-](?=\d))+|\s+|.", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive words; `changed`: only this text has them."""

    text: str
    changed: bool


def word_diff(old: str, new: str) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return the parts of both texts; joined, they give the texts again."""
    before, after = _PARTS.findall(old), _PARTS.findall(new)
    if max(len(before), len(after)) > _MOST_WORDS or not before or not after:
        return _whole(old, new), _whole(new, old)
    left: list[Part] = []
    right: list[Part] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        changed = kind != "equal"
        left += [Part("".join(before[i:j]), changed)] if i < j else []
        right += [Part("".join(after[k:m]), changed)] if k < m else []
    return tuple(left), tuple(right)


def changes_in_row(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """Return the parts of both texts in one row, each with what became of it: kept, removed or added."""
    before, after = (list(parts) for parts in word_diff(old, new))
    row = list[tuple[str, str]]()
    while before or after:
        for parts, how in ((before, "removed"), (after, "added")):
            while parts and parts[0].changed:
                row.append((how, parts.pop(0).text))
        if before and after:
            row.append(("kept", after.pop(0).text))
            before.pop(0)
    return tuple(row)


def _whole(text: str, other: str) -> tuple[Part, ...]:
    return (Part(text, text != other),) if text else ()
