"""Secrets known by the nouns beside them: assigned to a name, or told in a sentence."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from state.secrets.languages import Noun, vocabulary
from state.secrets.told.assigned import (
    BARE_KEYS,
    end_of,
    is_about,
    is_secret,
    name_end,
    name_start,
    value_of,
)
from state.secrets.told.candidates import candidates
from state.secrets.told.evidence import has_evidence
from state.secrets.told.judge import Judge, is_told
from state.secrets.told.mentions import Mention, mentions
from state.secrets.told.pairs import pairs
from state.secrets.told.tables import tables
from state.text.patterns import late_pattern

MARK = "[redacted: "
_KINDS = {
    Noun.PASSWORD: "password",
    Noun.PIN: "pin",
    Noun.CODE: "pin",
    Noun.KEY: "secret",
    Noun.LOGIN: "password",
    Noun.PHRASE: "seed phrase",
    Noun.CODES: "recovery code",
    Noun.UNNAMED: "password",
}
_ASSIGNED = frozenset({Noun.PASSWORD, Noun.KEY, Noun.LOGIN})
_NEAR = 45
_OF = late_pattern(r"[ \t][\w \t'’]*[ \t]")
_WIRELESS = ("wifi", "wlan", "ssid", "hotspot", "无线", "無線")
_RUN = 200
_FOLDER_BEFORE, _FOLDER_AFTER = late_pattern(r"/[\w.-]{0,40}$"), late_pattern(r"[\w.-]{0,40}/")
_DOES = late_pattern(r"[ \t](?:has|have|had)[ \t](?:not[ \t])?[a-z]{2,20}ed\b")
_ANSWER = late_pattern(r"\"(?P<question>[^\"\n]{3,300}[?？])\"\s?[=:]\s?\"(?P<answer>[^\"\n]{1,200})\"")
_BESIDE, _WORD = 16, late_pattern(r"[^\W\d_]+")


def in_context(text: str, judge: Judge = is_told) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each secret beside a noun for it; `judge` decides on those in sentences."""
    answers = list(_ANSWER.finditer(text)) if '?"' in text or '？"' in text else []
    yield from _answers(answers, judge)
    every = spoken_of(text)
    found = _named(every)
    for start, end in pairs(text, found):
        yield "password", start, end
    if found:
        yield from tables(text)
    done, judged = 0, _Once()
    for number, mention in enumerate(found):
        if mention.start < done:
            continue
        owner = _owner(text, found[number - 1], mention) if number else mention
        if place := _assigned(text, mention, owner.noun, judged):
            yield _KINDS[owner.noun], *place
            done = place[1]
    of_others = [one.span("answer") for one in answers if not _named(spoken_of(one["question"]))]
    for one in candidates(text, every):
        if any(start <= one.start and one.end <= end for start, end in of_others):
            continue
        if has_evidence(text, one) and judge(text, one):
            noun = next((mention.noun for mention in (one.before, one.after) if mention), Noun.PASSWORD)
            yield _KINDS[noun], one.start, one.end


def _answers(every: Iterable[re.Match[str]], judge: Judge) -> Iterator[tuple[str, int, int]]:
    """Yield the secrets among answers that stand behind their questions, as in `"What is the PIN?"="4711"`.

    Each is judged with its own question alone: of several, another one may ask for something else.
    """
    for pair in every:
        question = f"{pair['question']} "
        moved = pair.start("answer") - len(question)
        for kind, start, end in in_context(question + pair["answer"], judge):
            if start >= len(question):
                yield kind, start + moved, end + moved


def _named(every: Iterable[Mention]) -> list[Mention]:
    """Return the mentions that name a secret."""
    return [one for one in every if one.noun not in {Noun.THING, Noun.UNNAMED}]


def spoken_of(text: str) -> list[Mention]:
    """Return the nouns of a text near which a secret may be, and the things that secrets open."""
    return [
        one
        for one in mentions(text)
        if not (_is_mark(text, one.start) or _is_folder(text, one) or _is_person(text, one) or _is_public(text, one))
    ]


class _Once:
    """Prevents a long run without spaces from being judged again for each noun in it."""

    def __init__(self) -> None:
        self._end = 0

    def __call__(self, start: int, size: int) -> bool:
        """Return whether this start lies within a run that was judged before."""
        if start < self._end:
            return True
        self._end = start + size if size >= _RUN else 0
        return False


def _assigned(text: str, mention: Mention, noun: Noun, judged: _Once) -> tuple[int, int] | None:
    """Return the span of the secret assigned to a name, if there is one."""
    stop = name_end(text, mention.end)
    if noun not in _ASSIGNED or is_about(text, mention.start, mention.end, stop):
        return None
    value = value_of(text, mention.start, stop)
    if value is None or judged(value.start, len(value.text)):
        return None
    is_its = is_secret(value, noun, text[name_start(text, mention.start) : stop], mention.key)
    return (value.start, end_of(value, text)) if is_its else None


def _owner(text: str, before: Mention, mention: Mention) -> Mention:
    """Return the noun that decides the kind: in "the password of the key" and "WLAN …, key" it is a password."""
    between = text[before.end : mention.start]
    if len(between) <= _NEAR and mention.noun in {Noun.KEY, Noun.LOGIN, Noun.CODE}:
        if (
            before.noun is Noun.PASSWORD
            and _OF.fullmatch(between)
            and between.split()[0].lower() in vocabulary().small
        ):
            return before
        if mention.key in BARE_KEYS and any(word in before.key for word in _WIRELESS):
            return replace(mention, noun=Noun.PASSWORD)
    return mention


def _is_mark(text: str, start: int) -> bool:
    """Return whether a noun is part of an earlier mark, where it names the kind."""
    mark = text.rfind(MARK, max(0, start - 40), start)
    return mark >= 0 and "]" not in text[mark:start]


def _is_folder(text: str, one: Mention) -> bool:
    """Return whether the name of an account is a folder in a path."""
    return (
        one.noun is Noun.LOGIN
        and bool(_FOLDER_AFTER.match(text, one.end))
        and bool(_FOLDER_BEFORE.search(text, max(0, one.start - 41), one.start))
    )


def _is_person(text: str, one: Mention) -> bool:
    """Return whether a user does something, rather than being an account: "User has answered your questions"."""
    return one.noun is Noun.LOGIN and bool(_DOES.match(text, one.end))


def _is_public(text: str, one: Mention) -> bool:
    """Return whether a key is public: "the public key", "clave pública"."""
    if one.noun is not Noun.KEY:
        return False
    name = text[name_start(text, one.start) : one.start].lower()
    if "public" in name or name.endswith("application"):
        return True
    if text[one.start - 1 : one.start] == "$":
        return False  # `public $secret` is a field of a program
    beside = (text[max(0, one.start - _BESIDE) : one.start], text[one.end : one.end + _BESIDE])
    before, after = (_WORD.findall(part.lower()) for part in beside)
    words = vocabulary().public
    near = " ".join(beside).lower()
    return not words.isdisjoint((*before[-1:], *after[:1])) or (
        one.key[0] > "\u3000" and any(word in near for word in words if word > "\u3000")
    )
