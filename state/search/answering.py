"""Answering: whether a text answers an open question. Strict: a wrongly settled question is worse than an open one.

One sentence must name what the question names and say something new of the sort that was asked for: a reason to
"why", a time to "when", a number to "how many", a name to "who". Doubts, plans and questions answer nothing.
"""

import re

from state.search.dates import tells_time
from state.text.common_words import COMMONPLACE
from state.text.sentences import ends_as_question, statements_of
from state.text.words import STOP_WORDS, content_terms, numbers

_TOPIC = re.compile(r"^What is known about: (?P<topic>.*?)\?*$", re.DOTALL)
_DOUBT = re.compile(
    r"\b(?:ask(?:s|ed|ing)?|wonder(?:s|ed|ing)?|questions?|unknown|unclear|undecided|unsure|no idea|nobody knows|"
    r"not (?:yet )?(?:sure|clear|known|decided)|maybe|perhaps|might|may be|probably|possibly|guess|think|suspect|"
    r"assume|seems?|apparently|tbd|todo|to be (?:decided|determined|clarified)|find out|figure out|look into|"
    r"investigate|(?:do|does|did)(?: not|n['’]t) (?:yet )?know|need(?:s|ed)? to|should|"
    r"will (?:ask|check|look|find))\b",
    re.IGNORECASE,
)
_ASKING = frozenset(
    """is know known wonder wondering find figure clarify unclear clear sure open question tbd determin determined
    decid decided investigat understand need remain whether much many long often old kind sort""".split()
)
# A reason, a means, a place.
_CUES = {
    "why": re.compile(
        r"\b(?:because|due to|caused by|since|the (?:reason|cause)|root cause|so that|owing to)\b", re.IGNORECASE
    ),
    "how": re.compile(r"\b(?:by|via|using|through|with|after|when|whenever|because|as soon as)\b", re.IGNORECASE),
    "where": re.compile(
        r"\b(?:is|are|lives?|stored|kept|located|found|sits?|stands?|hosted|held|saved)(?: now| only)?"
        r" (?:in|at|on|under|behind|inside|near|below|above|next to)\b",
        re.IGNORECASE,
    ),
}
_POLAR = re.compile(
    r"^(?:is|are|was|were|am|do|does|did|can|could|should|has|have|had|will|would|may|must)\b|\b(?:whether|if)\b",
    re.IGNORECASE,
)
_WH = re.compile(
    r"\b(why|when|where|who|whose|whom|how (?:many|much|long|often|old)|how|what|which)\b", re.IGNORECASE
)
_NAME = re.compile(r"(?<!\w)[^\W\d_a-z][^\W_]+")
_VALUE = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"|\b\w+[-_/.:@]\w[\w./:@-]*|\d")
_ALL_WORDS = 3
_SHARE = 0.75
_SAYS_MORE = 2


def answers(question: str, text: str) -> bool:
    """Whether some sentence of the text answers the question, which is one of `state.signals.curiosity`'s."""
    topic = _TOPIC.match(question.strip())
    asked = _DOUBT.sub(" ", topic["topic"] if topic else question)
    wanted = content_terms(asked) - _ASKING
    if not wanted:
        return False
    if topic:
        return any(_covers(wanted, one) and len(_news(wanted, one)) >= _SAYS_MORE for one in _statements(text))
    return any(_covers(wanted, one) and _fits(asked, wanted, one) for one in _statements(text))


def _statements(text: str) -> list[str]:
    return [one for one in statements_of(text) if one and not ends_as_question(one) and not _DOUBT.search(one)]


def _fits(question: str, wanted: frozenset[str], sentence: str) -> bool:
    """Whether the sentence says something of the sort that the question asks for."""
    word = _WH.search(question)
    asked = word[1].lower() if word else ""
    if not asked and _POLAR.search(question):
        return wanted <= content_terms(sentence)
    if not _news(wanted, sentence):
        return False
    if not asked:
        # "Hosting region: TBD" has no mark. What has one is in another language: left to who can read it.
        return "?" not in question and _has_value(wanted, sentence)
    if asked in ("what", "which"):
        return len(wanted) >= _ALL_WORDS or _has_value(wanted, sentence)
    return _has_sort(asked, question, wanted, sentence)


def _has_sort(asked: str, question: str, wanted: frozenset[str], sentence: str) -> bool:
    if asked in _CUES:
        return _CUES[asked].search(sentence) is not None
    if asked == "when":
        return tells_time(sentence)
    if asked.startswith("who"):
        return _has_name(wanted, sentence)
    return bool(set(numbers(sentence)) - set(numbers(question)))


def _covers(wanted: frozenset[str], sentence: str) -> bool:
    """All the words of a short question, three quarters of a longer one's."""
    there = wanted & content_terms(sentence)
    return there == wanted if len(wanted) <= _ALL_WORDS else len(there) >= _SHARE * len(wanted)


def _news(wanted: frozenset[str], sentence: str) -> frozenset[str]:
    return content_terms(sentence) - wanted


def _has_name(wanted: frozenset[str], sentence: str) -> bool:
    names = (name.lower() for name in _NAME.findall(sentence))
    return any(name not in STOP_WORDS | COMMONPLACE and not content_terms(name) & wanted for name in names)


def _has_value(wanted: frozenset[str], sentence: str) -> bool:
    return _has_name(wanted, sentence) or any(
        not content_terms(value) <= wanted for value in _VALUE.findall(sentence) if content_terms(value)
    )
