"""Contradiction: whether two lines say opposite things of one subject. Precision before recall.

A contradiction revises the older line, so a false one loses a truth, and a missed one leaves two lines standing.
Four cases are seen: the same words with opposite polarity; the same choice the other way round; one value in an
otherwise equal sentence replaced by another of the same sort; the same named property with another date or number.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache
from operator import attrgetter

from state.text.antonyms import calendar, have_alternatives, have_opposites, unspaced_properties, words
from state.text.languages.loader import table
from state.text.languages.tables import Contrasts, Phrases
from state.text.sentences import statements_of
from state.text.words import UNSPACED, jaccard, normalise, numbers, search_form, stem, stop_words

MAX_SENTENCES = 12
MAX_CHARACTERS = 600  # of a sentence; longer ones are not judged
MAX_TOKENS = 40
SAME_WORDS = 0.85
SAME_FRAME = 0.74


_TOKEN = re.compile(
    rf"\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th)?(?=\W|$|[^\W\d_])|[{UNSPACED}]|c\+\+|[cf]#|"
    rf"[^\W\d_{UNSPACED}](?:[^\W_{UNSPACED}]|[\u0300-\u036f])*|[=:@]"
)
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)$")

# A dot belongs to a name such as vue.js, and not to the end of a sentence.
_CHOSEN = r"(\w(?:[\w+#-]|\.(?=\w)){0,40})"
_QUOTES = re.compile(r"[\"`*“”„«»]")
_ELIDED = (
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"(?<=\w)'s\b"), ""),
    (re.compile(r"(?<=[a-z])n't\b"), " not"),
    (re.compile(r"\bn'"), "ne "),
)


@dataclass(frozen=True, slots=True)
class _Statement:
    tokens: tuple[str, ...]  # stemmed, negators taken out
    content: frozenset[str]
    values: frozenset[str]  # numbers and parts of dates
    negated: bool
    refusing: bool  # a negation, or a word such as "avoid", stands in it
    choice: tuple[str, str] | None


def contradicts(a: str, b: str) -> bool:
    """Whether the two texts cannot both hold now; symmetric. Equal texts and added details do not contradict."""
    if normalise(a) == normalise(b):
        return False
    others = _statements(b)
    return any(_opposed(one, other) for one in _statements(a) for other in others)


def violates(text: str, constraint: str) -> bool:
    """Whether the text says what the constraint rules out, or does in whatever detail what it forbids.

    Stricter than `contradicts`: the detail ("I push to main when it is urgent") excuses nothing.
    """
    rules = _statements(constraint)
    return contradicts(text, constraint) or any(_does(one, rule) for one in _statements(text) for rule in rules)


def _does(one: _Statement, rule: _Statement) -> bool:
    if not rule.negated or one.refusing:
        return False
    forbidden = rule.content - _relations()
    return len(forbidden) >= 2 and forbidden <= one.content and _in_order(one, rule)


def changes_value(old: str, new: str) -> bool:
    """Whether a new text in the place of an old one says something else than it did, not only in other words."""
    return contradicts(old, new) or set(numbers(old)) != set(numbers(new))


@lru_cache(maxsize=1024)
def _statements(text: str) -> tuple[_Statement, ...]:
    sentences = [part for part in statements_of(text) if part.strip() and len(part) <= MAX_CHARACTERS]
    statements = (_statement(sentence) for sentence in sentences[:MAX_SENTENCES])
    return tuple(statement for statement in statements if statement.content and len(statement.tokens) <= MAX_TOKENS)


def _statement(sentence: str) -> _Statement:
    folded = search_form(sentence).replace("’", "'")
    for elided, spelt_out in _ELIDED:
        folded = elided.sub(spelt_out, folded)
    folded = _QUOTES.sub("", _pattern("no_negation").sub("", folded))
    folded = _pattern("no_longer").sub(lambda match: f" not {' '.join(filter(None, match.groups()))} ", folded)
    folded = _pattern("fillers").sub(" ", folded)
    choice = _choice().search(folded)
    spoken = [_token(token) for token in _TOKEN.findall(folded)]
    negations = sum(token in words("negators") for token in spoken)
    tokens = tuple(token for token in spoken if token not in words("negators") | words("emphasis"))
    while tokens and tokens[-1] in {":", "="}:
        tokens = tokens[:-1]
    values = frozenset(token for token in tokens if _is_value(token))
    content = frozenset(token for token in tokens if token not in stop_words() and token not in {":", "=", "@"})
    chosen = (stem(choice[1]), stem(choice[2])) if choice and words("choosing") & set(tokens) else None
    negated = negations % 2 == 1 and not _is_choice(spoken, chosen)
    return _Statement(tokens, content, values, negated, bool(negations or content & words("refusing")), chosen)


def _token(token: str) -> str:
    ordinal = _ORDINAL.match(token)
    return ordinal[1] if ordinal else stem(token)


def _is_value(token: str) -> bool:
    return token[0].isdigit() or token in calendar()


def _is_choice(tokens: Sequence[str], chosen: tuple[str, str] | None) -> bool:
    # In "tabs, not spaces" the negation belongs to the choice.
    at = tokens.index("not") if "not" in tokens else 0
    return chosen is not None and at > 0 and tokens[at - 1] == chosen[0]


def _opposed(one: _Statement, other: _Statement) -> bool:
    return (
        _opposite_polarity(one, other)
        or _opposite_choice(one, other)
        or _other_value(one, other)
        or _other_date(one, other)
    )


def _opposite_polarity(one: _Statement, other: _Statement) -> bool:
    """Whether the statements have the same words and one is denied, or one word is replaced by its opposite."""
    if one.values != other.values or one.choice or other.choice:
        return False
    if one.negated != other.negated:
        return jaccard(one.content, other.content) >= SAME_WORDS and _in_order(one, other)
    left, right = one.content - other.content, other.content - one.content
    if not left and not right:  # the words that say the opposite may be among the commonest: on and off
        return _is_switched(one.tokens, other.tokens)
    return len(left) == len(right) == 1 and have_opposites(left, right) and _in_order(one, other)


def _is_switched(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one word is replaced by its opposite, and nothing else."""
    if len(one) != len(other):
        return False
    changed = [(old, new) for old, new in zip(one, other, strict=True) if old != new]
    return len(changed) == 1 and have_opposites(changed[0][:1], changed[0][1:])


def _opposite_choice(one: _Statement, other: _Statement) -> bool:
    """Whether one prefers what the other rejects: tabs over spaces, and spaces over tabs (or spaces alone)."""
    if one.choice and other.choice:
        return one.choice == other.choice[::-1] and jaccard(one.content, other.content) >= SAME_WORDS
    with_choice, plain = (one, other) if one.choice else (other, one)
    if not with_choice.choice or plain.negated:
        return False
    chosen, rejected = with_choice.choice
    frame = with_choice.content - {chosen, rejected}
    return (
        rejected in plain.content
        and chosen not in plain.content
        and plain.content - {rejected} == frame
        and bool(frame)
    )


def _other_value(one: _Statement, other: _Statement) -> bool:
    """One stretch of an otherwise equal sentence is replaced, and it stands where a value stands."""
    # What has the value is named before it, and equally.
    if one.negated != other.negated or one.choice or other.choice or one.tokens[:1] != other.tokens[:1]:
        return False
    one, other = sorted((one, other), key=lambda statement: statement.tokens)  # the matcher is not symmetric
    codes = SequenceMatcher(None, one.tokens, other.tokens, autojunk=False).get_opcodes()
    changes = [code for code in codes if code[0] != "equal"]
    if len(changes) != 1 or changes[0][0] != "replace":
        return False
    _, start, end, other_start, other_end = changes[0]
    old, new = one.tokens[start:end], other.tokens[other_start:other_end]
    before, after = one.tokens[:start], one.tokens[end:]
    if not any(token not in stop_words() and token not in _relations() for token in before):
        return False  # nothing is named that could have the value
    stated = any(token in _relations() for token in before)
    if all(map(_is_value, old)) and all(map(_is_value, new)):
        return stated and not _is_detail(old, new) and _measures(before, (*old, *new))
    if len(old) == len(new) == 1 and have_alternatives(old, new):
        return stated
    return not after and max(len(old), len(new)) <= 3 and _takes_one_value(before, old, new)


def _is_detail(old: Sequence[str], new: Sequence[str]) -> bool:
    return set(old) <= set(new) or set(new) <= set(old)


def _measures(before: Sequence[str], values: Sequence[str]) -> bool:
    """Whether values after these words measure the subject; in "line 40" or "Python 3.12" they name one of many."""
    last = before[-1]
    dated = any(value in calendar() for value in (*values, last)) or last in words("date_units")
    if dated:
        return _names_property(before)
    named_kind = last not in stop_words() | _relations() | words("properties")
    return not named_kind or bool(words("needs") & set(before))


def _names_property(tokens: Sequence[str]) -> bool:
    joined = "".join(token for token in tokens if not token.isascii())
    return any(token in words("properties") for token in tokens) or any(
        name in joined for name in unspaced_properties()
    )


def _takes_one_value(before: Sequence[str], old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether one value alone can follow: "name is …", "lives in …". A value with the other one in it is a detail."""
    same_sort = any(map(_is_value, old)) == any(map(_is_value, new))
    if not same_sort or _is_detail(old, new) or {old[0], new[0]} & {"a", "an"}:
        return False
    if before[-1] in words("copulas") or before[-1] in {"nam", "call"}:
        return _names_property(before)
    return len(before) >= 2 and before[-1] in words("places") and before[-2] in words("living")


def _other_date(one: _Statement, other: _Statement) -> bool:
    """Whether one property of one thing has, in other words, another date or number."""
    if not one.values or not other.values or one.negated != other.negated:
        return False
    if one.values <= other.values or other.values <= one.values:
        return False
    if {token.isalpha() for token in one.values} != {token.isalpha() for token in other.values}:
        return False
    if not (_says_value(one) and _says_value(other)):
        return False
    noise = words("revision") | _relations() - words("properties")
    left, right = one.content - one.values - noise, other.content - other.values - noise
    return bool(left & right & words("properties")) and jaccard(left, right) >= SAME_FRAME


def _says_value(statement: _Statement) -> bool:
    """Whether all values follow a relation: "Release 1.3 is out" names a release, it does not say its number."""
    first = next(i for i, token in enumerate(statement.tokens) if token in statement.values)
    return any(token in _relations() | words("revision") for token in statement.tokens[:first])


def _in_order(one: _Statement, other: _Statement) -> bool:
    shared = one.content & other.content
    return [t for t in one.tokens if t in shared] == [t for t in other.tokens if t in shared]


@cache
def _pattern(name: str) -> re.Pattern[str]:
    phrases: Phrases = attrgetter(name)(table(Contrasts))
    return re.compile(phrases.pattern)


@cache
def _choice() -> re.Pattern[str]:
    """What is chosen, and what is not: "tabs over spaces", "tabs, not spaces"."""
    known = table(Contrasts)
    between = rf" (?:{'|'.join(known.over.spaced)})|, (?:{'|'.join(known.but_not)})"
    return re.compile(rf"(?<![\w+#.-]){_CHOSEN}(?:{between}) (?:(?:{'|'.join(known.articles)}) )?{_CHOSEN}")


@cache
def _relations() -> frozenset[str]:
    return words("relations") | words("copulas") | words("living") | words("choosing")
