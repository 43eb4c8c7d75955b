"""Event lexicon: the emotional events (`Feeling`) that a text tells of, by word lists that mind negation.

Works clause by clause. "This does not work" is an error, "no errors" is nothing, "fixed the bug" is a reward, and a
question, a condition or a plan is no event. Precision before recall: one that is missed costs a nuance of the mood.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from state.signals.hormones import Feeling
from state.text.words import normalise

_CLAUSE = re.compile(
    r"(?:(?<![.!;:\n。！；：，,])[.!;:\n。！；：,，]+(?:\s+|$)|(?<=[。！；：，])|(?<=[?？])\s*|\s+(?:but|however|although|though|aber|mais|pero|но)\s+|"
    r"\s[–—-]\s)"
)
_CODE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\b\w{1,20}://\S+|(?<!\S)\S{1,120}\.(?:py|js|ts|go|rs|md|txt|log|json|ya?ml)\b",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_REACH = 5  # words before a cue in which a negation, and before or after it in which a repair, is meant for it
_REACH_AFTER = 3

# In a table a feeling stands at the margin, its cues follow, parted by commas. A cue counts only when none of its
# !words follows it.
_CUES = """
reward
  works !at !for !in !with !on !as !from !remotely !like !out
  worked !at !for !in !with !on !as !from !around !out, working now, now working, working again
  fixed !width !price !size !point !cost !rate !income !position !length, solved, resolved, tests pass
  tests passed, test passes, test passed, build passes, build passed, ci passes, ci passed, checks passed
  is green, are green, now passes, passes now, is passing, are passing, succeeded, successful, successfully
  success !rate !metric !metrics !criteria !factor !story, perfect !forward, perfectly, awesome, fantastic
  brilliant, is great, great job, great work, well done, good job, nice work, much faster, love it, loves it
  loved it, exactly right, exactly what, funktioniert, klappt, gelöst, behoben, perfekt, fonctionne, résolu
  corrigé, parfait, funciona, resuelto, arreglado, perfecto, работает, исправлено, решено, отлично
error
  error !handling !handler !handlers !message !messages !code !codes !class !type !types !boundary !rate !budget
  errors, fails !over, failed !over, failing, failure !mode !modes !rate, failures, broken, broke, crash !course
  crashed, crashes, crashing, bug !tracker !report !reports !bounty !fix !fixes, bugs
  exception !handling !handler !handlers !class, traceback, regression !test !tests !model !analysis, stuck
  blocked, frustrated, frustrating, annoyed, annoying, wrong, timed out, outage, data loss, stopped working
  stops working, fehler, kaputt, fehlgeschlagen, abgestürzt, erreur, échoué, cassé, fallo, falló, roto, ошибка
  сломано, сломался
social
  thanks !to, thank you, thx, appreciate, appreciates, appreciated, congratulations, congrats, happy birthday
  nice to meet, proud of you, trusts you, enjoyed talking, good to see you, grateful, haha, danke, merci, gracias
  obrigado, obrigada, grazie, спасибо
achievement
  shipped, released !in, launched !in, breakthrough, milestone reached, reached the milestone, reached a milestone
  achieved, accomplished, completed, finished, goal reached, went live, is live, all tests pass, all tests passed
  won, fertiggestellt, veröffentlicht, durchbruch, livré, terminé, lanzado, terminado, выпустили
urgency
  urgent, urgently, asap, as soon as possible, emergency !contact !contacts !exit, hurry, rush !hour
  time-critical, due today, due tomorrow, due tonight, deadline today, deadline is today, deadline tomorrow
  deadline is tomorrow, out of time, critical bug, critical issue, critical outage, critical incident
  production is down, prod is down, dringend, eilt, urgente, cuanto antes, срочно
"""
# What is denied is an event of its own: a thing that does not work is an error.
_DENIED = """
error
  work !at !for !in !with !on !as !from, works !at !for !in !with !on !as !from
  worked !at !for !in !with !on !as !from, working !at !for !in !with !on !as !from !hours, fixed, solved
  resolved, pass, passes, passed, passing, succeed, succeeded, successful, funktioniert, klappt, geht, fonctionne
  marche, funciona, работает
"""
_LISTS = """
negators: not no never without nothing none nobody hardly barely zero 0 cannot neither nor kein keine keinen keiner
    nie nichts ohne ne pas sans rien sin nunca ningún ninguna nada não sem не нет без
after: nicht nie kaum pas jamais
scope ends: and because so then und et y
conditions: if when whenever unless until once before whether wenn falls sobald bevor si quand avant cuando antes
    если когда
plans: would could should will may might must shall soll sollte muss wird
imperatives: do please never make ensure
mended: fixed fixes solved resolved squashed removed handled repaired caught corrected cleared gone free behoben
    gelöst corrigé résolu resuelto arreglado исправлена
"""
_UNSPACED = """
reward (?<![没沒不未])(?<!没有)(?<!沒有)(?<!未能)(?<!不能)成功(?!率)|解决了|搞定了
error (?<!没有)(?<!沒有)(?<![没沒无無])(?:失败|失敗|报错|出错|崩溃|错误)(?!处理|信息|码)|[没沒不未][能有]?成功
social 谢谢|感謝|感谢|謝謝|ありがとう
achievement (?<![没沒不未])(?:发布了|上线了|完成了|リリースした)
urgency (?<!不)(?:紧急|緊急|尽快|盡快)
"""
_UNSPACED_UNREAL = re.compile(r"如果|要是|倘若|是否|吗|嗎|もし")
# A reward, an error or an achievement has to have happened; thanks and haste may stand in a question.
_EVENTS = frozenset({Feeling.REWARD, Feeling.ERROR, Feeling.ACHIEVEMENT})


@dataclass(frozen=True, slots=True)
class _Cue:
    words: tuple[str, ...]
    not_before: frozenset[str]
    feeling: Feeling


def feelings_in(text: str) -> tuple[Feeling, ...]:
    """The events that a text tells of, at most one of each kind, in the order of `Feeling`.

    Code spans, addresses and file names are not read.
    """
    rows = "\n".join(normalise(row) for row in _CODE.sub(" ", text).splitlines())
    found = {feeling for clause in _CLAUSE.split(rows) for feeling in _felt_in(clause)}
    return tuple(feeling for feeling in Feeling if feeling in found)


def _felt_in(clause: str) -> Iterator[Feeling]:
    if not _WORD.search(clause):
        return
    asked = clause.rstrip().endswith(("?", "？"))
    spoken = _WORD.findall(_spelt_out(clause))
    condition = next((at for at, word in enumerate(spoken) if word in _words("conditions")), len(spoken))
    for at in range(len(spoken)):
        for cue in _cues(_CUES).get(spoken[at], ()):
            said = _stands(cue, spoken, at) and not _negated(spoken, at, len(cue.words))
            if said and (
                cue.feeling not in _EVENTS
                or not (asked or condition < at or _planned(spoken, at) or _mended(cue, spoken, at))
            ):
                yield cue.feeling
        for cue in _cues(_DENIED).get(spoken[at], ()):
            denied = _stands(cue, spoken, at) and _negated(spoken, at, 1)
            if denied and not asked and not condition < at and not _ordered(spoken):
                yield cue.feeling
    if not clause.isascii() and not asked and not _UNSPACED_UNREAL.search(clause):
        yield from (feeling for feeling, pattern in _unspaced() if pattern.search(clause))


def _spelt_out(clause: str) -> str:
    clause = clause.replace("’", "'").replace("can't", "can not").replace("won't", "will not")
    return re.sub(r"(?<=[a-z])n't\b", " not", clause).replace("not only", "").replace("qu'", "").replace("n'", "ne ")


def _stands(cue: _Cue, spoken: Sequence[str], at: int) -> bool:
    end = at + len(cue.words)
    following = spoken[end] if end < len(spoken) else ""
    return tuple(spoken[at:end]) == cue.words and following not in cue.not_before


def _negated(spoken: Sequence[str], at: int, length: int) -> bool:
    before = list(spoken[max(0, at - _REACH) : at])
    for i in range(len(before) - 1, -1, -1):
        if before[i] in _words("scope ends"):
            before = before[i + 1 :]
            break
    after = spoken[at + length : at + length + _REACH_AFTER]
    return bool(_words("negators") & set(before) or _words("after") & set(after))


def _planned(spoken: Sequence[str], at: int) -> bool:
    """A plan, or "to be fixed"."""
    before = spoken[max(0, at - _REACH + 1) : at]
    return bool(_words("plans") & set(before)) or before[-1:] == ["to"] or before[-2:] == ["to", "be"]


def _mended(cue: _Cue, spoken: Sequence[str], at: int) -> bool:
    if cue.feeling is not Feeling.ERROR:
        return spoken[at] == "fixed" and spoken[at - 1 : at] == ["a"]  # "a fixed schedule" mends nothing
    end = at + len(cue.words)
    near = (*spoken[max(0, at - _REACH) : at], *spoken[end : end + _REACH_AFTER])
    return bool(_words("mended") & set(near)) and not _words("negators") & set(near)


def _ordered(spoken: Sequence[str]) -> bool:
    return spoken[0] in _words("imperatives")


@cache
def _cues(table: str) -> dict[str, tuple[_Cue, ...]]:
    cues: dict[str, tuple[_Cue, ...]] = {}
    feeling = Feeling.REWARD
    for row in table.strip().split("\n"):
        if not row.startswith(" "):
            feeling = Feeling(row)
            continue
        for entry in row.strip().split(", "):
            words = tuple(word for word in entry.split() if not word.startswith("!"))
            excluded = frozenset(word[1:] for word in entry.split() if word.startswith("!"))
            cues[words[0]] = (*cues.get(words[0], ()), _Cue(words, excluded, feeling))
    return cues


@cache
def _words(name: str) -> frozenset[str]:
    rows = (row.split(": ", 1) for row in _LISTS.replace("\n    ", " ").strip().split("\n"))
    return frozenset(dict(rows)[name].split())


@cache
def _unspaced() -> tuple[tuple[Feeling, re.Pattern[str]], ...]:
    rows = (row.split(" ", 1) for row in _UNSPACED.strip().split("\n"))
    return tuple((Feeling(name), re.compile(pattern)) for name, pattern in rows)
