"""Word diff: which words of a text changed, for two versions of a line side by side."""

import difflib
import re
from dataclasses import dataclass

# Beyond this the comparison is of whole texts: difflib's time grows with the square.
_MOST_WORDS = 1_500
# A word, the space after it, a mark; of scripts without spaces each character.
_PARTS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|\s+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """Some words in a row; `changed`: they stand in this text alone."""

    text: str
    changed: bool


def word_diff(old: str, new: str) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return the parts of both texts, joined again each text as it was."""
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


def _whole(text: str, other: str) -> tuple[Part, ...]:
    return (Part(text, text != other),) if text else ()
