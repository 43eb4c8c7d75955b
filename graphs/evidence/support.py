"""Evidence support: whether what an operation cites bears it out, rules it out, or leaves it in doubt.

A text may say what its sources say, and what follows from them. A name or number that is in none of them, what turns
a line around or exchanges subjects, and a change for which something else is cited are ruled out. Words of one's own,
a limit or a part of a line that is gone, are in doubt: it may be so, and somebody should look.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise

from graphs.evidence.claim import (
    Claim,
    Words,
    bearing_of,
    clauses,
    denials,
    is_among,
    is_denied,
    limits,
    marks,
    no_longer,
    plainly,
    shown,
    states,
    tells_change,
    texts,
)
from graphs.evidence.numbers import Reckoned, named_days
from state.crystals.contradiction import contradicts
from state.document.operations import Action
from state.text.identity import UPDATE, compare
from state.text.statement import Word
from state.text.words import jaccard, search_form

# Of the words that are new in a text, so many may be nobody's.
MOST_OWN, MOST_OWN_OF_MERGE = 0.5, 0.34
# A text of which a line has so much is a version of it; so much of a sentence, and it is the same sentence.
VERSION, SAME_SENTENCE = 0.7, 0.75
LEAST_OF_MERGED, LEAST_LEFT = 0.25, 0.25  # of each line in a merge, and in a revision that is surely of it
_SPEAKERS = frozenset({"§i", "§we", "§you"})
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+(?=/)")
_SENTENCE = re.compile(r"[;!?；。]\s*|(?<=\w\w\w)\.\s+|\.$")


@dataclass(frozen=True, slots=True)
class Weight:
    """Why an operation is ruled out, or in doubt; neither when it is borne out."""

    refused: str = ""
    doubted: str = ""


def weigh(claim: Claim) -> Weight:
    """How much what is cited bears an operation out."""
    if claim.action is Action.ADD and plainly(claim.text) in {plainly(said) for said in claim.cited}:
        return Weight()
    if claim.action is Action.EVICT:
        return Weight(doubted="" if claim.is_about or not claim.inputs else "what it cites speaks of something else")
    ruled_out = next(filter(None, (rule(claim) for rule in _RULED_OUT)), "")
    if ruled_out:
        return Weight(refused=ruled_out)
    return Weight(doubted=next(filter(None, (rule(claim) for rule in _IN_DOUBT)), ""))


# What is ruled out


def _invented(claim: Claim) -> str:
    """A name or number that nobody says."""
    known = Words(claim.words(*claim.known))
    kept = len(claim.words(*claim.olds)) - len(claim.gone)
    renamed = claim.action is Action.REVISE and any(word.named or word.may_name for word in claim.gone)
    same = kept >= VERSION * len(claim.words(claim.text))
    speaks = any(_SPEAKERS & {word.text for word in claim.read(said).words} for said in claim.said)
    values = [
        word
        for word in claim.own
        if word.number
        or (claim.names_tell and word.named and word not in known)
        or (renamed and not speaks and (word.named or word.may_name) and (same or word in known))
    ]
    there = " ".join((*claim.olds, *claim.cited))
    lie = shown(values) or next((one for one in _HOST.findall(claim.text) if one not in there), "")
    return f"{lie[:80]} is in nothing that it cites" if lie else ""


def _measured_otherwise(claim: Claim) -> str:
    """A number with a unit of which nobody has said it."""
    units = [
        unit
        for number, unit in pairwise(claim.words(claim.text))
        if number.number and number.text != "1" and unit in claim.own and _measures_otherwise(claim, number)
    ]
    return f"{shown(units)} is in nothing that it cites" if units else ""


def _measures_otherwise(claim: Claim, number: Word) -> bool:
    after = Words(claim.words(claim.text))
    sources = [claim.words(text) for text in (*claim.olds, *claim.cited)]
    units = [unit for words in sources for one, unit in pairwise(words) if one.text == number.text]
    return bool(units) and not any(unit in after for unit in units)


def _of_something_else(claim: Claim) -> str:
    """A line is changed, or said again otherwise, and what is cited does not speak of it."""
    if claim.action is Action.MERGE or claim.is_about:
        return ""
    if claim.action is Action.ADD:
        version = next((line for line in claim.known if _is_version(claim, line)), None)
        return f"it says a line with {shown(claim.own)}, which is in nothing that it cites" if version else ""
    lost = [word for word in claim.gone if word.number or word.named]
    unsaid = [word for word in claim.come if word not in claim.support]
    if claim.come and (not claim.inputs or len(unsaid) > MOST_OWN * len(claim.come)):
        return f"what it cites says nothing of {shown(unsaid or claim.come)}"
    return f"what it cites says nothing of {shown(lost)}" if lost and not claim.come else ""


def _repeated(claim: Claim) -> str:
    """What a standing line says already, and no input is cited for it."""
    if claim.action is not Action.ADD or claim.inputs:
        return ""
    words = claim.words(claim.text)
    for line in claim.known:
        there = claim.words(line)
        said = sum(word in Words(there) for word in words)
        if said == len(words) >= VERSION * len(there):
            return "a line says so already"
    return ""


def _is_version(claim: Claim, line: str) -> bool:
    words, there = texts(claim, claim.text), texts(claim, line)
    covered = len(words & there) >= VERSION * len(words) or jaccard(words, there) > MOST_OWN
    return bool(claim.own) and covered


def _replaced_by_nothing(claim: Claim) -> str:
    """A name or number gives way to words of which nobody says any."""
    lost = any(word.number or word.named for word in claim.gone)
    lost = lost and not any(tells_change(claim, said) for said in claim.said)
    if claim.action is not Action.REVISE or not lost or not claim.come or len(claim.own) < len(claim.come):
        return ""
    return f"{shown(claim.own)} is in nothing that it cites"


def _turned_around(claim: Claim) -> str:
    """A sentence that is denied now, or no longer, of which what is cited says nothing, or what it said before."""
    turned = _turned(claim)
    if turned is None:
        return ""
    old, denies = turned
    there = [clause for text in claim.cited for clause in clauses(text)]
    before = texts(claim, old)
    again = any(
        (not denials(claim, said) if denies else is_denied(claim, no_longer().sub(" ", search_form(said))))
        and sum(is_among(word, texts(claim, said)) for word in before) >= SAME_SENTENCE * len(before)
        and not tells_change(claim, said)
        for said in there
    )
    told = any(_tells_otherwise(claim, old, said, denies=denies) for said in claim.cited)
    about = claim.is_about and any(states(claim, said) for said in claim.cited)
    reason = told or any(word in claim.support for word in claim.come)
    return "" if about and reason and not again else "it turns the line around, and nothing that it cites says so"


def _denied_unsaid(claim: Claim) -> str:
    """A sentence that is denied now, or no longer, though no source says just that."""
    turned = _turned(claim)
    if turned is None or any(_tells_otherwise(claim, turned[0], said, denies=turned[1]) for said in claim.cited):
        return ""
    return "it turns the line around, and nothing that it cites says so in so many words"


def _turned(claim: Claim) -> tuple[str, bool] | None:
    """A clause of a line that is denied now, or no longer, and whether it is."""
    before = [(clause, texts(claim, clause)) for text in claim.olds for clause in clauses(text)]
    for clause in clauses(claim.text):
        here, denies = texts(claim, clause), is_denied(claim, clause)
        same = [old for old, there in before if there and len(there & here) >= SAME_SENTENCE * len(there)]
        if same and not any(is_denied(claim, old) is denies for old in same):
            return same[0], denies
    return None


def _tells_otherwise(claim: Claim, old: str, said: str, *, denies: bool) -> bool:
    """Whether a source says the contrary of a line, or that it changed."""
    if not states(claim, said):
        return False
    changed = tells_change(claim, said) or compare(old, said).update >= UPDATE
    if denies:
        told = bool(denials(claim, said) or no_longer().search(said)) or (
            changed and bool(claim.read(claim.text).changes)
        )
    else:
        told = changed and not is_denied(claim, no_longer().sub(" ", search_form(said)))
    return told or contradicts(old, said)


def _contradicted(claim: Claim) -> str:
    """A merge that contradicts one of its lines, and no other source does."""
    if claim.action is not Action.MERGE:
        return ""
    for line in claim.olds:
        others = [one for one in (*claim.olds, *claim.cited) if one != line]
        if contradicts(line, claim.text) and not any(contradicts(line, other) for other in others):
            return "it contradicts a line that it merges"
    return ""


def _exchanged(claim: Claim) -> str:
    """A merge that says of one subject what its lines say of another, or all of it of a subject of its own."""
    if claim.action is not Action.MERGE:
        return ""
    first = next(iter(claim.words(claim.text)), None)
    openings = [claim.words(line)[:1] for line in claim.olds]
    if first in claim.own and ":" not in claim.text and all(one and one[0] in claim.gone for one in openings):
        return f"{shown(claim.own)} is in none of the lines that it merges"
    if not any(compare(one, other).apart for one, other in combinations(claim.olds, 2)):
        return ""
    lines = [
        frozenset(word.text for word, line in marks(claim, old) if line == at) for at, old in enumerate(claim.olds)
    ]
    subjects = [one[0].text for one in openings if one]
    for sentence in _SENTENCE.split(claim.text):
        found = list(marks(claim, sentence))
        turns = [line for line, _ in groupby(line for _, line in found)]
        order, named = list(dict.fromkeys(turns)), {word.text for word, _ in found}
        if turns != order * (len(turns) // max(1, len(order))):
            return "it says of one line what another line is about"
        if all(subject in mine for subject, mine in zip(subjects, lines, strict=False)):
            spoken_of = [subjects[line] in named for line in order]
        else:
            spoken_of = [any(text in named for text in lines[line] if not text[0].isdigit()) for line in order]
            complete = all(
                text in named
                for line, spoken in zip(order, spoken_of, strict=True)
                if spoken
                for text in lines[line]
                if text[0].isdigit()
            )
            spoken_of = [True] if complete else spoken_of
        if any(spoken_of) and not all(spoken_of):
            return "it says of one line what another line is about"
    return ""


def _forgotten(claim: Claim) -> str:
    """A merge that keeps next to nothing of one of its lines."""
    after = Words(claim.words(claim.text))
    for line in claim.olds if claim.action is Action.MERGE else ():
        words = claim.words(line)
        kept = sum(word in after for word in words)
        if kept < LEAST_OF_MERGED * len(words):
            return (
                f"it keeps {kept} of the {len(words)} words of {line[:40]!r}, at least {LEAST_OF_MERGED:.0%} wanted"
            )
    return ""


# What is in doubt


def _other_words(claim: Claim) -> str:
    """More than half of what is new is nobody's; or all of a clause."""
    new = claim.come if claim.action is Action.REVISE else claim.words(claim.text)
    known = Words(claim.words(*claim.known))
    own_words = [word for word in claim.own if not ((word.named or word.may_name) and word in known)]
    most = MOST_OWN_OF_MERGE if claim.action is Action.MERGE else MOST_OWN
    if len(own_words) > most * len(new):
        return f"{shown(claim.own)} is in nothing that it cites"
    own = {word.text for word in claim.own}
    for clause in clauses(claim.text):
        words = claim.words(clause)
        if len(words) > 1 and all(word.text in own for word in words):
            return f"{shown(words)} is in nothing that it cites"
    return ""


def _not_about(claim: Claim) -> str:
    """An input that says all of it and does not speak of the line; or hardly a word of the line is left."""
    if claim.action is not Action.REVISE:
        return ""
    if claim.gone and all(word in claim.support for word in (*claim.gone, *claim.come)):
        return ""  # a rename: what goes is said, and what comes
    words = claim.words(*claim.olds)
    if len(words) - len(claim.gone) < LEAST_LEFT * len(words):
        return f"it keeps {len(words) - len(claim.gone)} of {len(words)} words"
    return "" if claim.is_about else "what it cites speaks of something else"


def _left_out(claim: Claim) -> str:
    """A clause of a line that is gone, and that no input speaks of; a name or number of a line that is merged."""
    if claim.action is Action.MERGE:
        settled = any(
            contradicts(line, other) or (other in claim.said and compare(line, other).update >= UPDATE)
            for line in claim.olds
            for other in (*claim.olds, *claim.said)
        )
        lost = [word for word in claim.gone if (word.number or word.named) and not settled]
        return f"it leaves out {shown(lost)}" if lost else ""
    after = Words(claim.words(claim.text, *claim.said))
    for line in claim.olds:
        for clause in clauses(line):
            words = claim.words(clause)
            if words and len(words) < len(claim.words(line)) and not any(word in after for word in words):
                return f"it leaves out {shown(words)}"
    return ""


def _limited(claim: Claim) -> str:
    """A limit that is gone, or another one: of whom, how many, how sure; a question that is answered."""
    after, said = claim.read(claim.text), [claim.read(text) for text in claim.said]
    there = frozenset[str]().union(*map(limits, (*said, *(claim.read(text) for text in (*claim.olds, *claim.cited)))))
    before = frozenset[str]().union(*(limits(claim.read(line)) for line in claim.olds))
    bearing = bearing_of(claim)
    new = limits(after) - there
    if new and (len(claim.own) > 1 or (bearing and limits(bearing) - limits(after))):
        return f"nothing that it cites says {', '.join(sorted(new))}"
    lost = before.difference(limits(after), *map(limits, said))
    if lost and not new and not any(word.number for word in claim.come) and claim.action is Action.REVISE:
        return f"it leaves out {', '.join(sorted(lost))}"
    if bearing and bearing.possible and not after.possible:
        return f"it leaves out {', '.join(sorted(bearing.possible))}"
    if bearing and not after.asks and not states(claim, bearing.folded) and states(claim, claim.text):
        return "it says what is only asked or spoken of"
    if bearing and claim.action is Action.ADD and bearing.denials % 2 != after.denials % 2 and not after.asks:
        return "it denies what is said, or says what is denied"
    return ""


def _reversed(claim: Claim) -> str:
    """Who does it and to whom it is done change places around a word; "me" is whom no source names."""
    first, *rest = [word.text for word in claim.words(claim.text)] or [""]
    for sentence in (one for text in (*claim.olds, *claim.said) for one in clauses(text)):
        spoken, before = claim.read(sentence).words, claim.words(sentence)
        if not before or before[0].number or before[0].text not in rest:
            continue
        order = [word.text for word in before]
        between = [word for word in rest[: rest.index(order[0])] if word in order]
        if first in order:
            between = [word for word in between if order.index(word) < order.index(first)]
        elif not (
            before[0].may_name or before[0].named or (spoken[0].text in _SPEAKERS and list(spoken[1:2]) == before[:1])
        ) or _SPEAKERS.isdisjoint(word.text for word in spoken[1:]):
            continue
        if between:
            return f"{order[0]} does there what is done to it here, or the other way around"
    return ""


def _of_another(claim: Claim) -> str:
    """An input that says the same of another name than that of the line."""
    if claim.action is not Action.REVISE or not claim.names_tell:
        return ""
    before, after = claim.words(*claim.olds), Words(claim.words(*claim.olds, claim.text))
    for said in claim.said:
        words = claim.words(said)
        there = Words(words)
        others = [word for word in words if (word.named or word.may_name) and word not in after]
        kept = [word for word in before if word.named and word not in there and word not in claim.gone]
        same = sum(word in there for word in before)
        if others and kept and same > MOST_OWN * (len(before) - len(kept)):
            return f"what it cites is about {shown(others)}"
    return ""


def _dated_otherwise(claim: Claim) -> str:
    """A day of a month of which nobody has said it, though its number was said."""
    sources = (*claim.old, *claim.inputs, *claim.beside)
    there = frozenset[tuple[int, int]]().union(*(named_days(text) for text, _ in sources))
    here = named_days(claim.text) - there
    follow = Reckoned.of(sources).values_of(claim.text) if here else frozenset()
    found = [f"{month}-{day:02}" for month, day in here if str(day) not in follow]
    return f"{', '.join(found)} is in nothing that it cites" if found and there else ""


_Rule = Callable[[Claim], str]
_RULED_OUT: tuple[_Rule, ...] = (
    _invented,
    _of_something_else,
    _replaced_by_nothing,
    _repeated,
    _turned_around,
    _contradicted,
    _exchanged,
    _forgotten,
)
_IN_DOUBT: tuple[_Rule, ...] = (
    _other_words,
    _measured_otherwise,
    _denied_unsaid,
    _not_about,
    _left_out,
    _limited,
    _reversed,
    _of_another,
    _dated_otherwise,
)
