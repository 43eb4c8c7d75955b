"""Words by which people speak of secrets: one file a language, merged into one vocabulary for the search in a text.

Each file of languages/ has every row of ROWS. A new language is a new file; then
`python -m tests.state.secrets.plain_nouns` lists its nouns for short commands.
"""

import functools
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from state.text.languages.loader import rows_of

_FOLDER = Path(__file__).with_name("languages")

# What may stand between the words of a noun, or not.
_JOINTS = re.compile(r"[\s_-]+")


class Noun(Enum):
    """What a noun announces."""

    PASSWORD = "password"  # noqa: S105 - the name of a row
    PIN = "pin"
    KEY = "key"
    PHRASE = "phrase"
    CODES = "codes"
    LOGIN = "login"
    CODE = "code"  # of a door, if one is spoken of
    THING = "locked"  # what a secret opens
    UNNAMED = "unnamed"  # "try again with", "the new one is": a secret is meant that nobody names

    __hash__ = object.__hash__  # that of Enum is Python, and asked for each word near a noun


# What an ambiguous noun is taken for: the first that has it.
_ORDER = (Noun.PIN, Noun.PHRASE, Noun.CODES, Noun.PASSWORD, Noun.KEY, Noun.LOGIN, Noun.CODE, Noun.THING, Noun.UNNAMED)
# tells: stands between the noun and its value; leads: the same, of what may be no value;
# about: behind the noun, no value follows; yours: of a placeholder; small: of a sentence rather than a passphrase;
# worded: part of a noun whose secret may be plain words;
# users: a noun of `login` that names who logs in; public: beside a key, everybody may see it;
# numbers: what has a number that is no secret; general: so one speaks of what other people's secrets are.
_WORDS = ("tells", "leads", "about", "yours", "small", "worded", "users", "public", "numbers", "general")
ROWS = (*(noun.value for noun in Noun), *_WORDS)

_ACCENTED = re.compile("[à-öø-ÿāăąćčďđēęěğīıłńňőœřśşšťūůűźżž]")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ø": "oe", "å": "aa", "œ": "oe"})


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of all languages. `nouns` by their key (see `key_of`); `named`: those that name a secret."""

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
    """Return a noun without what may stand between its words: api-key, api_key and API key are one."""
    key = noun.lower()
    return key if key.isalnum() else _JOINTS.sub("", key)


def _spellings(word: str) -> tuple[str, ...]:
    """Return a word in small letters, and as it is typed in haste or in a setting's name: without its accents."""
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
