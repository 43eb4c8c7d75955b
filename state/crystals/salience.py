"""Salience: a first guess of a turn's importance and kind, from its words and its speaker.

A first guess, made without a model. What the owner says outweighs what a tool prints; a wish, a decision, a date or
"remember" outweighs talk. Guesses are cheap to be wrong: nothing is dropped, everything is found by search.
"""

import re
from dataclasses import dataclass

from state.crystals.crystal import Kind
from state.trust import Trust

_HEAD = 2_000  # what a long turn is about stands at its beginning


@dataclass(frozen=True, slots=True)
class Salience:
    """A kind, and an importance in [0, 1]."""

    kind: Kind
    importance: float


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)


_REMEMBER = _words(
    r"(?:please )?(?:remember|don['’]t forget|do not forget|keep in mind|note) (?:that|this|to|:)|for the record"
    r"|from now on|in (?:the )?future,? (?:please|always|never)|(?:never|always) again|important:"
)
_MONTH = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_DATE = (
    rf"(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight|next (?:week|month|quarter|year|monday|friday)"
    rf"|end of (?:the )?(?:day|week|month|quarter|year)|{_MONTH}(?: \d{{1,2}})?|\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}"
    rf"|\d{{4}}-\d\d-\d\d|noon|midnight|\d{{1,2}}(?::\d\d)? ?[ap]m"
)
_DEADLINE = _words(
    rf"deadline|due (?:on|by|date)|(?:by|before|until|no later than) (?:the )?(?:{_DATE})|ships? on"
    rf"|(?:launch|release)(?:es|s)? (?:is )?on (?:{_DATE})|must be (?:done|ready|merged|shipped) (?:by|before)"
)
_PREFERENCE = _words(
    r"i (?:really |much |would |strongly )*(?:prefer|like|love|hate|dislike|can['’]t stand|don['’]t like|do not like)"
    r"|i['’]d rather|my favou?rite|please (?:always|never|don['’]t|do not|use|avoid|keep|stick)|(?:always|never) use"
    r"|i (?:always|never|usually|want you to)|no more|keep (?:it|them|answers|replies) (?:short|brief|terse)"
)
_DECISION = _words(
    r"(?:we|i)(?:['’]ve| have)? (?:just )?(?:decided|agreed|chose|settled|concluded)|signed off"
    r"|let['’]s (?:go with|use|keep|drop|switch)|(?:we|i)(?:['’]ll| will) (?:go with|use|keep|drop|switch|stay)"
    r"|decision:|the plan is|we['’]re going with|approved"
)
_GOAL = _words(
    r"(?:my|our|the) (?:goal|aim|objective|target|priority|plan)s?"
    r"|i (?:want|need|have|hope|plan|am going|['’]m going) to|we (?:(?:want|need|have|plan) to|must|should)"
    r"|i['’]m (?:trying|planning|hoping) to|todo|to-do|next steps?"
    r"|still (?:open|missing|to do)|remains to"
)
_RELATIONSHIP = _words(
    r"my (?:wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|mother|mom|mum|father|dad|sister|brother|son"
    r"|daughter|kids?|child(?:ren)?|parents?|family|friends?|best friend|boss|manager|colleagues?|co-?workers?|team"
    r"|mentor|client|neighbou?r|dog|cat)|works (?:with|for) (?:me|us)|is (?:our|my) \w+|reports to|married"
    r"|introduced me"
)
_PATTERN = _words(
    r"every (?:time|day|week|morning|release|deploy)|whenever|each time|as usual|again and again|the usual|workflow"
    r"|step \d|first[, ].{0,200}then|always (?:run|start|check|do)|before (?:you|we|I) (?:commit|push|merge|deploy)"
)
_INSIGHT = _words(
    r"turns? out|root cause|the (?:reason|cause|problem|culprit|trick|fix) (?:is|was)|it was because|lesson"
    r"|learn(?:ed|t) that|realis?zed?(?: that)?|discovered that|caused by|the bug (?:is|was)"
)
_EPISODE = _words(
    r"(?:i|we) (?:went|met|had|saw|did|got|bought|took|made|found|finished|shipped|deployed|released|merged|started"
    r"|visited|moved|attended|won|lost|broke|fixed|tried)|yesterday|last (?:night|week|month|year|time|weekend)|ago"
)
_SMALL_TALK = re.compile(
    r"(?:(?:ok(?:ay)?|yes|yeah|yep|no|nope|thanks?|thank you|thx|great|good|nice|perfect|cool|sure|go on|continue|hi"
    r"|hello|hey|bye|please|do it|done|lgtm|fine|right|wow|lol|haha)[\s,.!👍🙏]*){1,4}",
    re.IGNORECASE,
)

# In this order: the first that is found names the kind, the highest sets the importance.
_SIGNS = (
    (_PREFERENCE, Kind.PREFERENCE, 0.75),
    (_DEADLINE, Kind.GOAL, 0.8),
    (_DECISION, Kind.FACT, 0.75),
    (_RELATIONSHIP, Kind.RELATIONSHIP, 0.65),
    (_INSIGHT, Kind.INSIGHT, 0.7),
    (_GOAL, Kind.GOAL, 0.65),
    (_PATTERN, Kind.TASK_PATTERN, 0.6),
    (_EPISODE, Kind.EPISODE, 0.5),
)
_PLAIN = {Trust.OWNER: 0.45, Trust.AGENT: 0.35, Trust.TOOL: 0.2, Trust.WEB: 0.2}
# What an agent says about itself and the work weighs less than the owner's word; output of tools hardly weighs.
_WEIGHT = {Trust.OWNER: 1.0, Trust.AGENT: 0.75}


def salience(text: str, trust: Trust) -> Salience:
    """The kind and importance of what someone of this trust said.

    Importance: owner .3 to .9, agent .25 to .65, tool and web .2. Kinds of tools' and strangers' texts are GENERAL:
    a page that says "I prefer" tells nothing about the owner.
    """
    if trust not in _WEIGHT:
        return Salience(Kind.GENERAL, _PLAIN[trust])
    head = text[:_HEAD]
    if _SMALL_TALK.fullmatch(head.strip()):
        return Salience(Kind.GENERAL, 0.3 if trust is Trust.OWNER else 0.25)
    found = [(kind, weight) for sign, kind, weight in _SIGNS if sign.search(head)]
    kind = found[0][0] if found else Kind.GENERAL
    weight = max([weight for _, weight in found], default=0.0) * _WEIGHT[trust]
    if trust is Trust.OWNER and _REMEMBER.search(head):
        return Salience(kind if found else Kind.FACT, 0.9)
    if is_question(head):
        # A question says what was wanted, seldom what is so: only what it states beside that counts.
        return Salience(kind, round(max(0.4 * _WEIGHT[trust], weight - 0.2), 3))
    return Salience(kind, round(max(_PLAIN[trust], weight), 3))


def is_question(text: str) -> bool:
    """Whether the text ends with a question."""
    return text.rstrip(" \n\t\"')*_").endswith(("?", "？", "؟"))
