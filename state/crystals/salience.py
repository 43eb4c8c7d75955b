"""Salience: a first guess of a turn's importance and kind, from its words and its speaker, without a model.

The owner's words outweigh a tool's output; a wish, a decision, a date or "remember" outweighs chat. A wrong guess is
cheap: nothing is dropped, and search finds everything.
"""

import re
from dataclasses import dataclass
from functools import cache

from state.crystals.crystal import Kind
from state.text.languages.loader import alternatives, either, months, phrases
from state.text.words import ends_as_question, terms
from state.trust import Trust

_HEAD = 2_000  # characters: the beginning of a long turn says what it is about
# The first sign found gives the kind, the highest weight the importance.
_SIGNS = {
    "instruction": (Kind.INSTRUCTION, 0.8),
    "preference": (Kind.PREFERENCE, 0.75),
    "deadline": (Kind.GOAL, 0.8),
    "decision": (Kind.FACT, 0.75),
    "relationship": (Kind.RELATIONSHIP, 0.65),
    "insight": (Kind.INSIGHT, 0.7),
    "goal": (Kind.GOAL, 0.65),
    "pattern": (Kind.TASK_PATTERN, 0.6),
    "episode": (Kind.EPISODE, 0.5),
}
# An agent's deed is a task, which may come back; its owner's deed is an episode.
_DEED = (Kind.TASK_PATTERN, 0.5)
_PLAIN = {Trust.OWNER: 0.45, Trust.AGENT: 0.35, Trust.TOOL: 0.2, Trust.WEB: 0.2}
# An agent's words weigh less than the owner's; the output of tools hardly weighs anything.
_WEIGHT = {Trust.OWNER: 1.0, Trust.AGENT: 0.75}


@dataclass(frozen=True, slots=True)
class Salience:
    """A kind, and an importance in [0, 1]."""

    kind: Kind
    importance: float


def salience(text: str, trust: Trust) -> Salience:
    """Return the kind and importance of what someone of this trust said.

    Importance: owner .3 to .9, agent .25 to .65, tool and web .2. Texts of tools and strangers are GENERAL: a page
    that says "I prefer" says nothing about the owner.
    """
    if trust not in _WEIGHT:
        return Salience(Kind.GENERAL, _PLAIN[trust])
    head = text[:_HEAD].replace("’", "'")
    if _small_talk().fullmatch(head.strip()):
        return Salience(Kind.GENERAL, 0.3 if trust is Trust.OWNER else 0.25)
    found = [sign for row, sign in _SIGNS.items() if _says(row).search(head)]
    if trust is Trust.AGENT and (not found or found[0][0] is Kind.EPISODE):
        found = [_DEED, *found] if phrases("deed").match(head.lstrip(" -*•")) else found
    is_asked = ends_as_question(head)
    is_stated = not is_asked and not head.rstrip().endswith(("!", "！")) and len(terms(head)) > 1
    kind = found[0][0] if found else Kind.FACT if is_stated else Kind.GENERAL
    weight = max([weight for _, weight in found], default=0.0) * _WEIGHT[trust]
    if trust is Trust.OWNER and phrases("remember").search(head):
        return Salience(kind, 0.9)
    if is_asked:
        # A question says what was wanted, rarely what is true: only its other signs count, reduced.
        return Salience(kind, round(max(0.4 * _WEIGHT[trust], weight - 0.2), 3))
    return Salience(kind, round(max(_PLAIN[trust], weight), 3))


@cache
def _says(row: str) -> re.Pattern[str]:
    if row != "deadline":
        return phrases(row)
    by, by_unspaced = alternatives("by")
    dates, dates_unspaced = alternatives("dates")
    day = r"(?:\d{1,2}(?:st|nd|rd|th|er|º|\.|-?го)?(?: de| di)? )?"
    date = rf"{day}(?:{either(months())})(?: \d{{1,2}})?|{dates}"
    spaced, unspaced = alternatives("deadline")
    unspaced += f"|(?:{dates_unspaced})(?:{by_unspaced})"
    return re.compile(rf"(?<!\w)(?:{spaced}|(?:{by}) ?(?:{date}))(?!\w)|{unspaced}", re.IGNORECASE)


@cache
def _small_talk() -> re.Pattern[str]:
    said = "|".join(alternatives("small_talk"))
    return re.compile(rf"(?:(?:{said})[\s,.!。！，、👍🙏]*){{1,4}}", re.IGNORECASE)
