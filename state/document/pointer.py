"""Pointer: the line in MEMORY.md that leads to a crystal by search keywords.

`- {topic} → search: `keywords``. The keywords are chosen so that the search itself finds the crystal, with some to
spare, because a pointer verified in a small store ages as the store grows. After a tenfold growth, one word still
finds its crystal among the first five in 78 % of cases, four rare words in 100 %.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from state.text.languages.loader import commonplace
from state.text.words import content_terms, terms

FIRST = 5
MAX_POINTERS = 20
WORDS = 4
MAX_WORDS = 12
TOPIC_CHARACTERS = 48

_LINE = re.compile(r"^(?P<topic>.*?)\s*(?:→|->)\s*search:\s*`(?P<keywords>[^`]+)`\s*$")


def render_pointer(topic: str, keywords: str) -> str:
    """Return the text of a pointer's line, without its bullet."""
    return f"{topic} → search: `{keywords}`"


def parse_pointer(text: str) -> tuple[str, str] | None:
    """Return (topic, keywords) of a pointer's line; None for another line."""
    match = _LINE.match(" ".join(text.split()))
    return (match["topic"], match["keywords"].strip()) if match else None


def candidates(text: str, frequency: Mapping[str, int]) -> tuple[str, ...]:
    """Return the words of a text that could lead to it, the best first.

    `frequency` is the number of crystals with each word. Rare words lead further than frequent ones, and meaningful
    words further than commonplace ones; at the same frequency the longer word comes first. At most one number, which
    tells a reader nothing, is among the first words if there are others.
    """
    content = content_terms(text)
    words = dict.fromkeys(word for word in terms(text) if content_terms(word) & content and len(word) > 1)
    order = {word: at for at, word in enumerate(words)}
    ranked = sorted(words, key=lambda word: (frequency.get(word, 0), -len(word), order[word]))
    numbers = [word for word in ranked if word.isdigit()]
    return tuple(sorted(ranked, key=lambda word: (_says_little(word), word in numbers[1:])))


def choose(ranked: Sequence[str], finds: Callable[[str], bool], reading: Sequence[str] = ()) -> str | None:
    """Return keywords, from the ranked words, with which the search finds the crystal; None if there are none.

    Try the four rarest words, add more until the search finds the crystal, then try words after the rarest (a better
    match may spell the rarest the same). Keywords are in the order of `reading`, in which a person reads the text.
    """
    return next((keywords for keywords in attempts(ranked, reading) if finds(keywords)), None)


def attempts(ranked: Sequence[str], reading: Sequence[str] = ()) -> Iterator[str]:
    """Return the keywords in the order in which `choose` tries them."""
    place = {word: -at for at, word in enumerate(reversed(reading or ranked))}
    return (" ".join(sorted(chosen, key=place.__getitem__)) for chosen in _tries(ranked))


def topic_of(text: str) -> str:
    """Return a short name of a line: its first clause, or more if that is short, cut after a content word."""
    whole = " ".join(text.replace("`", "'").replace("→", " ").split())
    first = re.split(r"(?<=[.;:!?]) | [–—-] ", whole, maxsplit=1)[0]
    flat = (first if len(first) >= TOPIC_CHARACTERS / 2 else whole).rstrip(".;:!? ")
    if len(flat) <= TOPIC_CHARACTERS:
        return flat or "An earlier note"
    cut = flat[:TOPIC_CHARACTERS]
    words = cut.split(" ")[:-1] or [cut[:-1]]
    last = next((at for at, word in reversed(list(enumerate(words, 1))) if content_terms(word)), len(words))
    return " ".join(words[:last]).rstrip(",;:. ") + "…"


def _says_little(word: str) -> bool:
    return word in commonplace() or (word.isdigit() and len(word) < 4)


def _tries(ranked: Sequence[str]) -> Iterator[tuple[str, ...]]:
    seen = set()
    for count in range(WORDS, MAX_WORDS + 1):
        for start in (0,) if count < MAX_WORDS else range(0, max(1, len(ranked) - WORDS), WORDS):
            chosen = tuple(ranked[start : start + count])
            if chosen and chosen not in seen:
                seen.add(chosen)
                yield chosen
