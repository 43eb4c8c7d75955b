"""Evidence support: whether the cited texts justify a change of a line. A doubt is in favour of the change.

A revision takes its new words from an input, or is about what an input names. A merge says what its lines say, of
the same subjects. An addition does not say a standing line again with another value. What slips through is a wrong
line with its true one in the ledger and behind the search: nothing that is refused or let through here is lost.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from itertools import groupby, pairwise
from operator import attrgetter

from graphs.numbers import number_word
from state.crystals.contradiction import contradicts
from state.text.antonyms import calendar, words
from state.text.languages.loader import table
from state.text.languages.tables import Changes, Numerals
from state.text.sentences import ends_as_question
from state.text.words import content_terms, jaccard, search_form, stem, stop_words, terms

# Of the new words of a revision.
LEAST_SUPPORTED = 0.5
# A revision that only leaves out keeps so much, or what it leaves out is what the input speaks of.
LEAST_LEFT = 0.6
# An input that justifies more revisions than this has to name what they are about: a word that few lines have.
MOST_REVISIONS = 3
# Of the shorter one's words; two are enough in any case.
LEAST_SHARED = 0.25
RARE = 3
# Of the words of a sentence that is denied, or no longer: it is the same sentence.
SAME_SENTENCE = 0.75
# Words of a merge that its lines do not have, and among which no name is; a heading may have two in any case.
MOST_NEW = 0.25
MOST_IN_HEADING = 2
# So alike, and without an input, an addition is another version of the line.
SAME_LINE = 0.6

_PREFIX = 4
_BETWEEN = 200  # signs between two sentences, at most
_ENDING = 2
_WORD = re.compile(r"[^\W_][\w'’]*")
_SENTENCE = re.compile(r"[;!?；。]\s*|\.\s+")
_POSSESSIVE = re.compile(r"['’]s$")
_INITIAL = re.compile(r"(?:^|[.!?:;]\s+)[^\w]*$")
_HEADING = re.compile(r"((?:[^\s:.;!?]+ ){0,4}[^\s:.;!?]+):\s+\S")
# The letter in "server A", "A 8080" and "A and B" is a name; the pronoun is none.
_LETTER = re.compile(r"(?<=[^\W_] )[A-HJ-Z]\b(?!['’.])|\b[A-HJ-Z](?= (?:\d|and\b|und\b|et\b|y\b|&)|[,;:)]|$)")


def unsupported_revision(
    old: str, new: str, inputs: Sequence[str], beside: Sequence[str], known: Sequence[str], revisions: int
) -> str | None:
    """Why these inputs do not justify the revision; None when they do.

    `beside` are further lines that are cited, `known` all standing lines, `revisions` how many revisions of the
    answer cite the busiest of the inputs.
    """
    before, after, said = content_terms(old), content_terms(new), _said(inputs)
    support = said | _said(beside)
    fresh = {term for term in after - before if not term[0].isdigit()}
    missing = {term for term in fresh if not supported(term, support)} - one_more(old, new, inputs)
    if _turned_around(old, new, inputs):
        return "it turns the line around, and nothing that it cites says so"
    lies = missing & values(new, [old])
    miscounted = any((_value(term) or 0) > len(inputs) + 1 for term in lies - calendar())
    shared = {term for term in before if supported(term, said)}
    if not missing and all(supported(term, said) for term in before - after):
        return None  # a rename: the input says what goes and what comes
    names_it = any(sum(term in content_terms(line) for line in known) <= RARE for term in shared)
    touches = len(shared) >= 2 or len(shared) >= LEAST_SHARED * min(len(before), len(said))
    about = (bool(shared) and touches and (names_it or revisions <= MOST_REVISIONS)) or _recounts(before, after, said)
    if not after - before:
        weighed = before - words("negators")  # what is denied was looked at above
        left_out = len(weighed - after)
        explained = sum(supported(term, said) for term in weighed - after)
        kept = about and len(after) >= LEAST_LEFT * len(weighed)
        unexplained = f"it leaves out {left_out} of {len(weighed)} terms, of which what it cites says nothing"
        return None if kept or explained >= LEAST_SUPPORTED * left_out else unexplained
    borne_out = fresh and len(missing) <= (1 - LEAST_SUPPORTED) * len(fresh) and not miscounted
    if borne_out and (about or revisions <= MOST_REVISIONS):
        return None
    # A new number tells something too: it was looked at before.
    says_something_new = fresh != missing or fresh != after - before or any(map(tells_change, inputs))
    if about and says_something_new and not lies:
        return None
    shown = ", ".join(sorted(lies or missing or fresh or after - before))[:80]
    return f"what it cites says nothing of {shown}" if not about else f"{shown} is in nothing that it cites"


def unsupported_merge(old: Sequence[str], new: str, inputs: Sequence[str], beside: Sequence[str]) -> str | None:
    """Why the merged line does not say what its lines, the inputs and the lines `beside` say; None when it does."""
    known, after = _said([*old, *inputs, *beside]), content_terms(new)
    missing = {term for term in after if not term[0].isdigit() and not supported(term, known)}
    counted = {
        term for term in missing if (number_word(term) or "") in map(str, range(2, len(old) + len(inputs) + 1))
    }
    missing -= counted
    heading = _heading(new)
    lies = (missing & values(new, old)) - _kind(heading, old)
    excused = (missing & content_terms(heading)) - words("negators")
    if lies or len(missing) > max(MOST_NEW * len(after), min(MOST_IN_HEADING, len(excused))):
        return f"{', '.join(sorted(lies or missing))[:80]} is in none of the lines that it merges"
    for line in old:
        others = [*(one for one in old if one != line), *inputs, *beside]
        if contradicts(line, new) and not any(contradicts(line, other) for other in others):
            return "it contradicts a line that it merges"
    return _mixed(old, new, [*inputs, *beside])


def unsupported_addition(new: str, inputs: Sequence[str], known: Sequence[tuple[str, str]]) -> str | None:
    """Why the new line is only another version of a standing one; `known` are their ids and texts."""
    after, said = content_terms(new), _said(inputs)
    for name, line in known:
        before = content_terms(line)
        fresh = after - before
        if jaccard(after, before) < SAME_LINE or any(supported(term, said) for term in fresh):
            continue
        if fresh and not all(supported(term, said) for term in before & after):
            return f"it says {name} with {', '.join(sorted(fresh))[:60]}, which is in no input that it cites"
        if not fresh and not inputs:
            return f"{name} says so already"
    return None


def supported(term: str, said: Collection[str]) -> bool:
    """Whether these words have this one, in another form or spelling perhaps; any negation stands for any other."""
    for same in (words("negators"), _changes("liked")):
        if term in same:
            return not same.isdisjoint(said)
    value = term if term.isdigit() else number_word(term)
    if value is not None:
        return value in said or any(number_word(other) == value for other in said)
    if term in said or not term.isalpha():
        return term in said
    if len(term) < _PREFIX:
        return f"{term}s" in said or term.removesuffix("s") in said
    return any(len(other) >= _PREFIX and _same_word(term, other) for other in said)


def _same_word(term: str, other: str) -> bool:
    """One begins with the other; or one, which is not plain English, ends otherwise or is spelt as elsewhere."""
    if term.startswith(other) or other.startswith(term):
        return True
    if term.isascii() and other.isascii():
        return False
    longer = max(len(term), len(other))
    if term[: max(_PREFIX, longer - _ENDING)] == other[: max(_PREFIX, longer - _ENDING)]:
        return True
    one, more = sorted(map(_consonants, (term, other)), key=len)
    return len(one) >= _PREFIX and more.startswith(one)


@cache
def _consonants(term: str) -> str:
    """What is left of a word in most languages that use Latin letters: München, Muenchen, Munich."""
    plain = unicodedata.normalize("NFD", term.replace("ß", "ss")).replace("k", "c")
    bare = "".join(char for char in plain if char.isalpha() and char not in "aeiouyæøœ")
    return re.sub(r"(.)\1+", r"\1", bare)


def values(new: str, old: Sequence[str]) -> frozenset[str]:
    """The words of a text that name somebody or something, or spell a number.

    A word that opens a sentence may be capital for that reason: it counts when it opens the text, and what opened
    the old ones is gone.
    """
    found = set[str]()
    openings, opening = {_opening(line) for line in old}, _opening(new)
    replaced = opening not in openings and openings.isdisjoint(content_terms(new))
    for match in _WORD.finditer(new):
        word, folded = match.group(), _POSSESSIVE.sub("", search_form(match.group()))
        capital = word[0].isupper() and (
            not _INITIAL.search(new, max(0, match.start() - _BETWEEN), match.start()) or stem(folded) == opening
        )
        named = capital and (stem(folded) != opening or replaced)
        spelt = any(map(str.isdigit, word)) or (number_word(folded) is not None and folded not in _ambiguous())
        if folded not in stop_words() and (named or spelt):
            found |= content_terms(word)
    return frozenset(found)


def _opening(text: str) -> str:
    """The first word of a text that means something."""
    first = next((term for term in terms(text) if term not in stop_words()), "")
    return stem(first)


def _said(texts: Sequence[str]) -> frozenset[str]:
    return frozenset().union(*map(content_terms, texts))


@cache
def _changes(row: str) -> frozenset[str]:
    return frozenset(map(stem, attrgetter(row)(table(Changes))))


@cache
def _ambiguous() -> frozenset[str]:
    return frozenset(table(Numerals).ambiguous)


@cache
def _clause() -> re.Pattern[str]:
    return re.compile(rf"[;!?；。，]\s*|[,.:]\s+|\s+(?:{'|'.join(table(Changes).conjunctions)})\s+")


@cache
def _no_longer() -> re.Pattern[str]:
    return re.compile(table(Changes).no_longer.pattern)


@cache
def _changed_phrase() -> re.Pattern[str]:
    return re.compile(table(Changes).phrases.pattern)


def tells_change(text: str) -> bool:
    """Whether a text says that something is no longer as it was; one that only asks does not."""
    said = frozenset(map(stem, terms(text)))
    if ends_as_question(text) or not said.isdisjoint(_changes("spoke")):
        return False
    folded = search_form(text)
    said_so = _no_longer().search(folded) or _changed_phrase().search(folded)
    return bool(said_so) or not said.isdisjoint(_changes("changed"))


def _turned_around(old: str, new: str, inputs: Sequence[str]) -> bool:
    """Whether a sentence of the line is denied now, or no longer, for which no input is a reason.

    An input is one that says the contrary of the line, or that something changed; and for a denial one that denies,
    or has what else is new.
    """
    said = _said(inputs)
    before = [_denied(sentence) for sentence in _SENTENCE.split(old)]
    for sentence in _SENTENCE.split(new):
        here, denies = _denied(sentence)
        same = [did for there, did in before if there and len(there & here) >= SAME_SENTENCE * len(there)]
        if not same or denies in same or any(_says_contrary(old, one, denies) for one in inputs):
            continue
        fresh = here - content_terms(old)
        if not (denies and (words("negators") & said or any(supported(term, said) for term in fresh))):
            return True
    return False


def _says_contrary(old: str, said: str, denies: bool) -> bool:  # noqa: FBT001
    """Whether a text contradicts the line, or tells of a change; what is denied still, is not changed."""
    again = not denies and not words("negators").isdisjoint(terms(_no_longer().sub(" ", search_form(said))))
    return not again and (contradicts(old, said) or tells_change(said))


def _denied(sentence: str) -> tuple[frozenset[str], bool]:
    """The words of a sentence but its negations, and whether these deny it: two of them do not."""
    negations = sum(term in words("negators") for term in terms(sentence))
    return content_terms(sentence) - words("negators"), negations % 2 == 1


def one_more(old: str, new: str, inputs: Sequence[str]) -> frozenset[str]:
    """The numbers that say one more, or less, of what the line counted, when something new is named after them."""
    before, spoken = ([stem(term) for term in terms(text)] for text in (old, new))
    counted = {thing: _value(term) for term, thing in pairwise(before)}
    said = _said(inputs)
    named = {term for term in content_terms(new) - content_terms(old) if supported(term, said)}
    last = max((at for at, term in enumerate(spoken) if term in named), default=-1)
    return frozenset(
        term
        for at, (term, thing) in enumerate(pairwise(spoken))
        if at <= last
        and (value := _value(term)) is not None
        and (once := counted.get(thing)) is not None
        and abs(value - once) == 1
    )


def _value(term: str) -> int | None:
    """The number that a term is, or spells."""
    digits = term if term.isdecimal() else number_word(term)
    return None if digits is None else int(digits)


def _recounts(before: frozenset[str], after: frozenset[str], said: Collection[str]) -> bool:
    """Whether an input has the numbers that go and those that come."""
    gone, come = ({term for term in some if _value(term) is not None} for some in (before - after, after - before))
    return bool(gone and come) and all(supported(term, said) for term in gone | come)


def _heading(text: str) -> str:
    """What stands before a colon and what it is the heading of; nothing when there is none."""
    found = _HEADING.match(text)
    return found[1] if found else ""


def _kind(heading: str, old: Sequence[str]) -> frozenset[str]:
    """The heading "Ports", or "Versions", of lines that begin alike: "Server A", "Server B"; it is no name there."""
    openings = {_opening(line) for line in old}
    of_a_kind = all(re.match(r"\W*\w+ (?:[A-Z]\b|\d)", line) for line in old)
    plural = heading.endswith("s") and not heading.endswith(("ss", "us", "is"))
    word = content_terms(heading)
    if openings <= words("opinions") | words("choosing"):
        return word  # whose lines have no subject that it could replace
    fits = len(openings) == 1 and of_a_kind and (plural or not word.isdisjoint(words("properties")))
    return word if fits and " " not in heading else frozenset()


def _mixed(old: Sequence[str], new: str, inputs: Sequence[str]) -> str | None:
    """Why a merged line says of one subject what its sources say of another; None when it does not.

    A sentence that speaks of one line has no number of another of which it has no word, and the numbers of several in
    their order. A clause that has the subject of one line, or follows one that has, has no word that is another's
    alone, unless it has that one's subject too, or its sentence says something of each in the order of the subjects.
    """
    marks = [frozenset(_marks(line)) for line in old]
    counts = Counter(term for line in marks for term in line)
    known = frozenset[str]().union(*map(_marks, inputs))
    own = [{term for term in line if counts[term] == 1} - known for line in marks]
    sentences = _SENTENCE.split(new)
    for sentence in sentences:
        foreign = _foreign_numbers(_marks(sentence), own)
        if foreign:
            return f"it says {', '.join(sorted(foreign))[:60]} of what another line is about"
    subjects = [_opening(line) for line in old]
    if any(subject not in mine for subject, mine in zip(subjects, own, strict=True)):
        return None
    for sentence in sentences:
        if set(subjects) <= set(_marks(sentence)) and _in_turns(_marks(sentence), own, subjects):
            continue
        spoken_of = frozenset[str]()
        for clause in _clause().split(sentence):
            here = frozenset(_marks(clause))
            spoken_of = here.intersection(subjects) or spoken_of
            absent = [mine for subject, mine in zip(subjects, own, strict=True) if subject not in spoken_of]
            theirs = {term for term in frozenset[str]().union(*absent) & here if not term[0].isdigit()}
            if theirs and len(absent) < len(old):
                return f"it says {', '.join(sorted(theirs))[:60]} of what another line is about"
    return None


def _marks(text: str) -> tuple[str, ...]:
    """The words of a text that carry meaning, in order; with letters that are names, and digits for number words."""
    named = _LETTER.sub(lambda found: f"the{found[0]}", text)
    stems = (stem(term) for term in terms(named) if term not in stop_words())
    return tuple(
        (number_word(term) or term) if term not in calendar() and term not in _ambiguous() else term for term in stems
    )


def _foreign_numbers(said: Sequence[str], own: Sequence[Collection[str]]) -> frozenset[str]:
    """The numbers of a line that a sentence says without a word of that line, or not in the order of the lines.

    A line of which the number is all that is its own is named by it, when the others have theirs.
    """
    here = frozenset(said)
    figures = [{term for term in mine if term[0].isdigit()} for mine in own]
    spoken_of = [not here.isdisjoint(mine - its) for mine, its in zip(map(frozenset, own), figures, strict=True)]
    each = list(zip(own, figures, spoken_of, strict=True))
    complete = all(not its or its & here for _, its, spoken in each if spoken)
    unnamed = [its & here for mine, its, spoken in each if not spoken and not (complete and set(mine) == its)]
    if any(spoken_of) and any(unnamed):
        return frozenset().union(*unnamed)
    numbered = [(mine, its) for mine, its, spoken in each if spoken and its & here]
    at = {term: number for number, (mine, _) in enumerate(numbered) for term in mine}
    spoken = [(at[term], term[0].isdigit()) for term in said if term in at]
    names, numbers = ([line for line, digit in spoken if digit is wanted] for wanted in (False, True))
    nearest, beside = -1, True
    for line, digit in spoken:
        beside &= not digit or line == nearest
        nearest = nearest if digit else line
    in_order = list(dict.fromkeys(names)) == _without_repetition(numbers)
    return frozenset() if beside or in_order else frozenset().union(*(its for _, its in numbered)) & here


def _in_turns(said: Sequence[str], own: Sequence[Collection[str]], subjects: Sequence[str]) -> bool:
    """Whether a sentence says something of each line in turn, in the order of their subjects, and so again."""
    at = {term: number for number, mine in enumerate(own) for term in mine}
    order = list(dict.fromkeys(at[term] for term in said if term in subjects))
    turns = _without_repetition([at[term] for term in said if term in at])
    return turns == order * (len(turns) // len(order))


def _without_repetition(lines: Sequence[int]) -> list[int]:
    return [line for line, _ in groupby(lines)]
