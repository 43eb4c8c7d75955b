"""Read a corpus file: one JSON object a line; `{kind:N}` in a text becomes N characters drawn from a seed."""

import json
import random
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ALPHABETS = {
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "digits": string.digits,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "alnum": string.ascii_letters + string.digits,
    "lownum": string.ascii_lowercase + string.digits,
    "ALNUM": string.ascii_uppercase + string.digits,
    "b64": string.ascii_letters + string.digits + "+/",
    "b64url": string.ascii_letters + string.digits + "-_",
    "b32": string.ascii_uppercase + "234567",
    "b58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
}
_DRAWN = re.compile(r"\{(" + "|".join(_ALPHABETS) + r"):(\d+)\}|\{uuid\}")
_SECRET = re.compile("⟦(.*?)⟧", re.DOTALL)


CORPORA = Path(__file__).parent / "corpora"


@dataclass(frozen=True, slots=True)
class Entry:
    """One text of a corpus; `secrets` are the parts between ⟦ and ⟧, which the text holds without the brackets."""

    kind: str
    language: str
    text: str
    secrets: tuple[str, ...]


def entries(path: Path, seed: int = 1) -> list[Entry]:
    """The texts of a corpus file, drawn anew for each seed."""
    return [
        Entry(kind, language, text, tuple(text[start:end] for start, end in spans))
        for kind, language, text, spans in drawn(path, seed)
    ]


def drawn(path: Path, seed: int = 1) -> Iterator[tuple[str, str, str, tuple[tuple[int, int], ...]]]:
    """Kind, language and text of each line of a corpus file, and where its secrets begin and end."""
    rng = random.Random(seed)
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        marked = _DRAWN.sub(lambda match: _random(rng, match), row["text"])
        # Before the end of the n-th secret 2n - 1 brackets stand.
        spans = [(match.start() - 2 * n, match.end() - 2 * n - 2) for n, match in enumerate(_SECRET.finditer(marked))]
        yield row["kind"], row["language"], _SECRET.sub(lambda match: match[1], marked), tuple(spans)


def _random(rng: random.Random, match: re.Match[str]) -> str:
    if match[1] is None:
        digits = "".join(rng.choice(_ALPHABETS["hex"]) for _ in range(32))
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return "".join(rng.choice(_ALPHABETS[match[1]]) for _ in range(int(match[2])))


def is_left(entry: Entry, text: str) -> bool:
    """Whether a secret, or a piece longer than half of it and than eight characters, is still in the text."""
    for secret in entry.secrets:
        size = max(9, len(secret) // 2 + 1)
        pieces = (secret[at : at + size] for at in range(len(secret) - size + 1))
        if secret in text or any(piece in text for piece in pieces):
            return True
    return False
