"""Pair: what two statements have in common and what each has alone, as the figures that `identity` measures by."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from state.text import antonyms
from state.text.statement import Statement, Word

_WEIGHTS = {"value": 1.5, "sign": 0.5, "word": 1.0}  # of a name or number, a sign of an unspaced script, a word
_PREFIX, _ENDING = 4, 3
_DENIED_WITHIN = 5
_SAME_SENTENCE = 0.6  # so much of it is in the other, but for the subject
_TURNS = frozenset("instead rather over against statt anstatt lieu plutôt vez lugar invece вместо".split())
_PASSIVE = frozenset("by von vom par por pelo pela da dal dalla".split())
_PASSIVE_SIGNS = ("被", "によ", "られ", "れた")


class Pair:
    """Two statements side by side: what of each has nothing like it in the other."""

    def __init__(self, older: Statement, newer: Statement) -> None:
        self.older, self.newer = older, newer
        self.before, self.after = _content(older), _content(newer)
        self.old_texts, self.new_texts = [w.text for w in self.before], [w.text for w in self.after]
        self.shared_before = _shared(self.old_texts, frozenset(self.new_texts))
        self.shared_after = _shared(self.new_texts, frozenset(self.old_texts))
        self.gone = [word for word, shared in zip(self.before, self.shared_before, strict=True) if not shared]
        self.come = [word for word, shared in zip(self.after, self.shared_after, strict=True) if not shared]
        self.kept = [word for word, shared in zip(self.before, self.shared_before, strict=True) if shared]
        self._old, self._new = _mass(self.before) or 1.0, _mass(self.after) or 1.0
        self._gone, self._come = _mass(self.gone), _mass(self.come)

    def words(self) -> dict[str, float]:
        """How much of each is in the other, and in which order."""
        old, new, gone, come = self._old, self._new, self._gone, self._come
        covered = 1 - gone / old, 1 - come / new
        matcher = SequenceMatcher(None, self.old_texts, self.new_texts, autojunk=False)
        changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
        in_order = sum(block.size for block in matcher.get_matching_blocks())
        one = changed[0] if len(changed) == 1 and changed[0][0] == "replace" else None
        ends = one and (one[2], one[4]) == (len(self.before), len(self.after))
        return {
            "covered_old": covered[0],
            "covered_new": covered[1],
            "covered_least": min(covered),
            "covered_most": max(covered),
            "shared": min(_mass(self.kept), 12.0),
            "gone": min(gone, 8.0),
            "come": min(come, 8.0),
            "length": min(old, 16.0),
            "longer": min(new / old, 3.0),
            "same_words": float(same_words(self.older, self.newer)),
            "same_bag": float(Counter(self.old_texts) == Counter(self.new_texts)),
            "changes": float(min(len(changed), 6)),
            "in_order": in_order / max(1, min(len(self.kept), sum(self.shared_after))),
            "one_replaced": float(one is not None),
            "replaced_at_end": float(bool(ends)),
            "replaced_at_start": float(one is not None and one[1] == one[3] == 0),
            "replaced_length": float(max(one[2] - one[1], one[4] - one[3])) if one else 0.0,
            "first_old": float(bool(self.before) and self.shared_before[0]),
            "first_new": float(bool(self.after) and self.shared_after[0]),
            "first_same": float(self.old_texts[:1] == self.new_texts[:1] != []),
            "last_old": float(bool(self.before) and self.shared_before[-1]),
            "last_new": float(bool(self.after) and self.shared_after[-1]),
            "spelling": _alike(self.older.folded, self.newer.folded),
            "spelling_replaced": _most_alike(self.gone, self.come),
            "unspaced": float(any(len(word.text) == 1 and not word.text.isascii() for word in self.before)),
        }

    def names(self) -> dict[str, float]:
        """Whom and what each of them names."""
        gone, come = ([word for word in words if word.named and not word.label] for words in (self.gone, self.come))
        return _sides("name", gone, come) | {
            "names_shared": float(sum(word.named or word.may_name for word in self.kept)),
            "opening_name_gone": float(any(word.may_name for word in self.gone)),
            "opening_name_come": float(any(word.may_name for word in self.come)),
            "label_replaced": float(any(w.label for w in self.gone) and any(w.label for w in self.come)),
            "label_one": float(any(w.label for w in self.gone) != any(w.label for w in self.come)),
            "names_swapped": float(self._swapped()),
            "name_old_at": _place(gone, self.before),
            "name_new_at": _place(come, self.after),
        }

    def _swapped(self) -> bool:
        """Whether the names that both have stand in another order."""
        here = list(dict.fromkeys(word.text for word in self.kept if word.named or word.may_name))
        there = [text for text in dict.fromkeys(self.new_texts) if text in here]
        return len(there) > 1 and there != here

    def numbers(self) -> dict[str, float]:
        """Numbers, dates and times of each."""
        gone, come = ([word for word in words if word.number] for words in (self.gone, self.come))
        kinds = ((_is_calendar, "calendar"), (_is_clock, "clock"), (_is_year, "year"))
        return (
            _sides("number", gone, come)
            | {f"{name}_replaced": float(_both(test, gone, come)) for test, name in kinds}
            | {
                "numbers_shared": float(sum(word.number for word in self.kept)),
                "number_new_at": _place(come, self.after),
            }
        )

    def turns(self) -> dict[str, float]:
        """What denies, reverses or replaces what the older one says."""
        older, newer = self.older, self.newer
        alternative = antonyms.have_alternatives([w.text for w in self.gone], [w.text for w in self.come])
        denied = _denied(newer) - _denied(older)
        denies = float(older.denials % 2 != newer.denials % 2)
        covered = 1 - self._gone / self._old
        return {
            "denies": denies,
            "denies_more": float(newer.denials - older.denials),
            "denies_covered": denies * min(covered, 1 - self._come / self._new),
            "opposite": float(self._opposite()),
            "alternative": float(alternative),
            "old_denied": float(not denied.isdisjoint(self.old_texts)),
            "old_name_denied": float(any(w.text in denied and (w.named or w.number) for w in self.before)),
            "tells_change": float(min(newer.changes, 2)),
            "told_change": float(min(older.changes, 2)),
            "more_change": float(newer.changes > older.changes),
            "adds": float(newer.adds and not older.adds),
            "passive": float(_is_passive(older) != _is_passive(newer)),
        }

    def _opposite(self) -> bool:
        here, there = ({word.text for word in one.words} for one in (self.older, self.newer))
        return antonyms.have_opposites(here - there, there - here)

    def limits(self) -> dict[str, float]:
        """What limits each of them: of whom, how many, when, how sure."""
        older, newer = self.older, self.newer
        shared = frozenset(self.old_texts) & frozenset(self.new_texts)
        rows = {
            "quantifiers": (older.quantifiers, newer.quantifiers),
            "persons": (older.persons, newer.persons),
            "daytimes": (older.daytimes, newer.daytimes),
            "possible": (older.possible, newer.possible),
            "reporting": (older.reporting, newer.reporting),
            "past": (older.past, newer.past),
        }
        found = {f"{name}_differ": float(a != b) for name, (a, b) in rows.items()}
        found |= {f"{name}_old": float(bool(a - b)) for name, (a, b) in rows.items()}
        found |= {f"{name}_new": float(bool(b - a)) for name, (a, b) in rows.items()}
        alike = older.quantifiers == newer.quantifiers and older.possible == newer.possible
        values = [Counter(word.text for word in one.words if word.number) for one in (older, newer)]
        return found | {
            "single_shared": float(not shared.isdisjoint(older.single_valued & newer.single_valued)),
            "many_shared": float(not shared.isdisjoint(older.many_valued & newer.many_valued)),
            "single_old": float(bool(older.single_valued)),
            "many_old": float(bool(older.many_valued)),
            "asks_old": float(older.asks),
            "asks_new": float(newer.asks),
            "may_be_same": float(
                older.asks == newer.asks
                and older.signs == newer.signs
                and values[0] == values[1]
                and (alike or not self.gone)
                and not self._reordered()
                and not self._other_names()
            ),
            "apart": float(self.apart()),
        }

    def apart(self) -> bool:
        """Whether they are about different subjects, in the same words otherwise."""
        return self._another_label() or self._alike_in_shape() or self._other_subjects()

    def _reordered(self) -> bool:
        """Whether both have the same words in an order that says something else: "to A from B", "from A to B"."""
        return Counter(self.older.meaning) == Counter(self.newer.meaning) and not same_words(self.older, self.newer)

    def _another_label(self) -> bool:
        """Whether a number or letter by which the subject is called is another one: "Room 204 is …", "Plan A …"."""
        here, there = _labels(self.older.words), _labels(self.newer.words)
        return any(there.get(called, number) != number for called, number in here.items())

    def _alike_in_shape(self) -> bool:
        """Whether both fill one sentence with other words: "Ada never merges without Bo", "Eve … without Kim".

        A new value stands in one place. With another in a second one, or beside another name or kind at the beginning
        ("the staging database …"), the sentence is about something else; so it is with a count in each of two places
        ("release 1 ships on day 4"), while a date and a time may be one value.
        """
        matcher = SequenceMatcher(None, self.old_texts, self.new_texts, autojunk=False)
        changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
        replaced = [code for code in changed if code[0] == "replace"]
        if len(replaced) > 1 and replaced[0] == ("replace", 0, 1, 0, 1) and not self.before[0].number:
            return not self._turned()
        if len(changed) < 2 or any(code[0] != "replace" for code in changed) or self._turned():
            return False
        if self.newer.changes > self.older.changes and self.shared_before[0]:
            return False  # it tells of a change of the same subject
        gone = [word for _, start, end, _, _ in changed for word in self.before[start:end]]
        if all(word.text.isdecimal() and not _is_year(word.text) for word in gone):
            return True
        words = [word for word in gone if not word.number]
        return len(words) >= 2 or (changed[0][1] == 0 and _is_name(self.before[0]) and _is_name(self.after[0]))

    def _turned(self) -> bool:
        """Whether one denies, or says the opposite of, what the other says."""
        return self.older.denials % 2 != self.newer.denials % 2 or self._opposite()

    def _other_subjects(self) -> bool:
        """Whether each begins with a name that the other has not, and says little that the other says."""
        if not (self.before and self.after) or self.shared_before[0] or self.shared_after[0]:
            return False
        covered = min(1 - self._gone / self._old, 1 - self._come / self._new)
        return _is_name(self.before[0]) and _is_name(self.after[0]) and covered < _SAME_SENTENCE

    def _other_names(self) -> bool:
        """Whether each names somebody or something that the other does not."""
        return any(map(_is_name, self.gone)) and any(map(_is_name, self.come))


def _is_name(word: Word) -> bool:
    return (word.named or word.may_name) and not word.label


def _labels(words: Sequence[Word]) -> dict[str, str]:
    """Of each word that a number or letter follows by which the subject is called, that number or letter.

    It calls the subject when the word before it names something, and most of what is said comes after it.
    """
    found: dict[str, str] = {}
    for at, (before, word) in enumerate(pairwise(words), 1):
        if not (word.number or word.label) or before.small or before.link or before.number:
            continue
        ahead = sum(not (other.link or other.number or other.small) for other in words[:at])
        behind = sum(not (other.link or other.number) for other in words[at + 1 :])
        if behind > ahead:
            found.setdefault(before.text, word.text)
    return found


def _content(statement: Statement) -> list[Word]:
    """The words that say something of the subject."""
    return [word for word in statement.words if not (word.link or word.denies or word.text.startswith("§"))]


def _mass(words: Iterable[Word]) -> float:
    return sum(map(_weight, words))


def _weight(word: Word) -> float:
    if word.named or word.number:
        return _WEIGHTS["value"]
    return _WEIGHTS["sign" if len(word.text) == 1 and not word.text.isascii() else "word"]


def _shared(words: Iterable[str], others: frozenset[str]) -> list[bool]:
    """Of each word whether it or another form of it, with another ending, is among the others."""
    beginning: dict[str, list[str]] = {}
    for other in others:
        beginning.setdefault(other[:_PREFIX], []).append(other)
    return [
        word in others
        or (
            len(word) >= _PREFIX
            and word[0].isalpha()
            and any(_shares_stem(word, other) for other in beginning.get(word[:_PREFIX], ()))
        )
        for word in words
    ]


def _shares_stem(one: str, other: str) -> bool:
    common = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return common >= max(_PREFIX, max(len(one), len(other)) - _ENDING)


def same_words(one: Statement, other: Statement) -> bool:
    """Whether both have the same words, in the same order or with one stretch of them moved. Symmetric."""
    if (one.asks, one.signs) != (other.asks, other.signs):
        return False
    here, there = (_ordered(statement) for statement in (one, other))
    if here == there:
        return bool(here)
    if Counter(here) != Counter(there) or len(here) < _PREFIX - 1:
        return False
    start = next(at for at, (a, b) in enumerate(zip(here, there, strict=True)) if a != b)
    end = len(here) - next(at for at, (a, b) in enumerate(zip(here[::-1], there[::-1], strict=True)) if a != b)
    old, new = here[start:end], there[start:end]
    return any(old[cut:] + old[:cut] == new for cut in range(1, len(old)))


def _ordered(statement: Statement) -> list[str]:
    """The meaning words; the parts of a date in one order."""
    found: list[str] = []
    dates: list[str] = []
    for word in (word for word in statement.words if not word.link):
        if word.number:
            dates.append(word.text)
            continue
        found += [*sorted(dates), word.text]
        dates = []
    return [*found, *sorted(dates)]


def _sides(name: str, gone: Sequence[Word], come: Sequence[Word]) -> dict[str, float]:
    return {
        f"{name}_replaced": float(bool(gone and come)),
        f"{name}_gone": float(bool(gone and not come)),
        f"{name}_come": float(bool(come and not gone)),
    }


def _place(words: Sequence[Word], statement: Sequence[Word]) -> float:
    """Where the first of the words stands, from 0 to 1; -1 when there is none."""
    return next((at / len(statement) for at, word in enumerate(statement) if word in words), -1.0)


def _both(test: Callable[[str], bool], gone: Iterable[Word], come: Iterable[Word]) -> bool:
    return all(any(test(word.text) for word in words) for words in (gone, come))


def _is_calendar(value: str) -> bool:
    return value[0] in "md"


def _is_clock(value: str) -> bool:
    return value[0] == "t"


def _is_year(value: str) -> bool:
    return len(value) == 4 and value[:2] in {"19", "20"} and value.isdigit()


def _denied(statement: Statement) -> set[str]:
    """The words that follow a denial, or "instead of"."""
    found: set[str] = set()
    for at, word in enumerate(statement.words):
        if word.denies or word.text in _TURNS:
            found |= {other.text for other in statement.words[at + 1 : at + _DENIED_WITHIN] if not other.link}
    return found


def _is_passive(statement: Statement) -> bool:
    return any(word.text in _PASSIVE for word in statement.words) or any(
        sign in statement.folded for sign in _PASSIVE_SIGNS
    )


def _alike(one: str, other: str) -> float:
    """How much of their runs of three signs two spellings share, in [0, 1]."""
    here, there = _trigrams(one), _trigrams(other)
    shared = len(here & there)
    return shared / max(1, len(here) + len(there) - shared)


def _most_alike(some: Iterable[Word], others: Iterable[Word]) -> float:
    """How much the two words, no numbers, share that are spelt most alike."""
    here, there = ([_trigrams(word.text) for word in words if not word.number] for words in (some, others))
    most = 0.0
    for one in here:
        for other in there:
            if not one.isdisjoint(other):
                shared = len(one & other)
                most = max(most, shared / (len(one) + len(other) - shared))
    return most


@lru_cache(maxsize=4_096)
def _trigrams(text: str) -> frozenset[str]:
    padded = f" {text} "
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))
