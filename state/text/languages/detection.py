"""Detection of a language: in which of the known languages a text is written, by its script and its small words."""

import re
from functools import cache, lru_cache

from state.text.languages.loader import languages, table_of
from state.text.languages.tables import Statements
from state.text.patterns import late_pattern
from state.text.words import search_form

_KANA = late_pattern(r"[\u3040-\u30ff]")
_HAN = late_pattern(r"[\u3400-\u9fff\uf900-\ufaff]")
_CYRILLIC = late_pattern(r"[\u0400-\u04ff]")
_WORD = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=4_096)
def language_of(text: str) -> str:
    """The code of the language; that of English for a text that tells nothing."""
    for pattern, code in ((_KANA, "ja"), (_HAN, "zh"), (_CYRILLIC, "ru")):
        if pattern.search(text):
            return code
    words = _WORD.findall(search_form(text))
    counts = {code: sum(map(small.__contains__, words)) for code, small in _small_words().items()}
    most = max(counts.values())
    return next(code for code, count in counts.items() if count == most)


@cache
def _small_words() -> dict[str, frozenset[str]]:
    """Of each language with Latin letters, English first, the words that stand in nearly every sentence."""
    known = {}
    for code in languages():
        rows = table_of(code, Statements)
        persons = (word for group in rows.persons for word in group[code != "en" :])
        words = frozenset(
            (*rows.articles, *rows.linking, *rows.quantifiers, *rows.past, *persons, *rows.prepositions)
        )
        if words and code not in {"ja", "zh", "ru"}:
            known[code] = words
    return known
