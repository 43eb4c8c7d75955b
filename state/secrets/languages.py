"""Words that people use for secrets: one file per language, merged into one vocabulary.

Each file of languages/ has every row of ROWS. To add a language, add a file, then run
`python -m tests.state.secrets.plain_nouns` to list its nouns for short commands.
"""

import functools
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from state.text.languages.loader import rows_of

_FOLDER = Path(__file__).with_name("languages")

# Optional characters between the words of a noun.
_JOINTS = re.compile(r"[\s_-]+")


class Noun(Enum):
    """The kind of secret that a noun announces."""

    PASSWORD = "password"  # noqa: S105 - the name of a row
    PIN = "pin"
    KEY = "key"
    PHRASE = "phrase"
    CODES = "codes"
    LOGIN = "login"
    CODE = "code"  # of a door, if a door is mentioned
    THING = "locked"  # something that a secret opens
    UNNAMED = "unnamed"  # "try again with", "the new one is": an implied secret

    __hash__ = object.__hash__  # Enum's own is written in Python, too slow to call for each word near a noun


# An ambiguous noun belongs to the first of these kinds that lists it.
_ORDER = (Noun.PIN, Noun.PHRASE, Noun.CODES, Noun.PASSWORD, Noun.KEY, Noun.LOGIN, Noun.CODE, Noun.THING, Noun.UNNAMED)
# tells: words between a noun and its value; leads: the same, but what follows may be no value;
# about: after the noun, says that no value follows; yours: words of placeholders; small: words of sentences, not of
# passphrases; worded: parts of nouns whose secret may be plain words;
# users: nouns of `login` that name a user; public: beside a key, says that it is public;
# numbers: things whose numbers are not secret; general: phrases about other people's secrets in general.
_WORDS = ("tells", "leads", "about", "yours", "small", "worded", "users", "public", "numbers", "general")
ROWS = (*(noun.value for noun in Noun), *_WORDS)

_ACCENTED = re.compile("[à-öø-ÿāăąćčďđēęěğīıłńňőœřśşšťūůűźżž]")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ø": "oe", "å": "aa", "œ": "oe"})


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of all languages. `nouns` are by key (see `key_of`); `named` are the keys that name a secret."""

    nouns: dict[str, Noun]
    named: frozenset[str]
    spelled: tuple[str, ...]
    tells: frozenset[str]
    leads: frozenset[str]
    about: frozenset[str]
    yours: frozenset[str]
    small: frozenset[str]
    worded: frozenset[str]
    users: frozenset[str]
    public: frozenset[str]
    numbers: frozenset[str]
    general: frozenset[str]


def key_of(noun: str) -> str:
    """Return a noun without the joints between its words: api-key, api_key and API key are equal."""
    key = noun.lower()
    return key if key.isalnum() else _JOINTS.sub("", key)


def _spellings(word: str) -> tuple[str, ...]:
    """Return a word in lower case, and without its accents, as typed in haste or in the name of a setting."""
    word = word.lower()
    if not _ACCENTED.search(word):
        return (word,)
    plain = "".join(one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one))
    return tuple(dict.fromkeys((word, plain, word.translate(_UMLAUTS))))


@functools.cache
def vocabulary() -> Vocabulary:
    """Return the words of all files, read once."""
    languages = [rows_of(file) for file in sorted(_FOLDER.glob("*.json"))]
    nouns: dict[str, Noun] = {}
    spelled: dict[str, None] = {}
    for noun in _ORDER:
        for word in (word for rows in languages for written in rows[noun.value] for word in _spellings(written)):
            spelled[word] = None
            nouns.setdefault(key_of(word), noun)
    words = {name: frozenset(word.lower() for rows in languages for word in rows[name]) for name in _WORDS}
    named = frozenset(key for key, noun in nouns.items() if noun not in {Noun.THING, Noun.UNNAMED})
    return Vocabulary(nouns, named, tuple(spelled), **words)
