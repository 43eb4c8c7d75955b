"""Antonyms: word lists for the search for contradictions: negations, relations, properties, opposites.

Small lists of English and a few other languages; a word that is missing here costs a contradiction that is not
seen, never a truth.
"""

from collections.abc import Iterator
from functools import cache

from state.text.words import stem

_LISTS = """
negators: not no never without neither nor cannot nicht nie niemals kein keine keinen keiner keinem pas jamais aucun
    aucune nunca jamás ningún ninguna non mai nessun não не нет никогда ни 不 没 無 无 未 別 别
copulas: is are was be been = : ist sind war lautet heißt est sont es son se llama è é 是 为 為 叫
living: lives live based located works wohnt lebt arbeitet habite travaille vive trabaja живёт
places: in at for as on bei à en a para в
choosing: prefers prefer wants uses use bevorzugt nutzt préfère utilise prefiere usa
relations: has have had costs takes requires needs lasts starts ends expires due until listens set limited supports
    must should wants moved scheduled runs kostet dauert braucht hat beginnt endet läuft coûte dure commence finit
    cuesta dura empieza termina tiene стоит длится имеет 有 要 于 於
needs: uses use requires require needs need runs run braucht utilise usa
opinions: like likes love loves hate dislike enjoy mag liebt hasst aime adore gusta odia любит
properties: name named called nickname birthday deadline date port version address email phone timezone language
    editor owner manager boss lead maintainer ceo cto capital database framework host hostname url domain path
    password username budget price cost limit timeout threshold interval region status colour color favourite
    favorite preferred default current main primary city country employer company title role branch license licence
    model meeting standup release launch appointment frist termin passwort geburtstag échéance nom anniversaire
    fecha nombre plazo cumpleaños срок имя порт версия
refusing: avoid avoiding refuse refuses refusing decline declines reject rejects prevent prevents forbid
    forbids forbidden before unless only vermeide vermeidet verweigere évite refuse evito evita избегаю
moments: every each day days week weeks month months year years morning evening night noon hour hours time times
    daily weekly monthly yearly today tomorrow yesterday always often again usually once twice
    jede jeden jedes tag woche monat jahr morgen abend immer oft wieder heute täglich wöchentlich monatlich
    chaque jour semaine mois année matin soir toujours souvent encore cada día semana mes año siempre
    ogni giorno settimana mese anno sempre dag vecka week maand jaar каждый день неделя месяц год 每天 每周 每月
emphasis: always immer stets toujours siempre sempre всегда do does did
revision: now new moved changed extended postponed updated actually instead pushed shifted rescheduled
"""

_OPPOSITES = """
like dislike, like hate, love hate, love dislike, enjoy hate, enjoy dislike, enabled disabled, enable disable,
allowed forbidden, allow forbid, allowed disallowed, agree disagree, true false, possible impossible, works broken,
passes fails, passing failing, succeeds fails, succeeded failed, open closed, accepted rejected, approved rejected,
on off, an aus, required optional, public private, online offline, available unavailable, stable unstable,
safe unsafe, married single, vegetarian carnivore,
mag hasst, erlaubt verboten, aime déteste, odia gusta, любит ненавидит
"""

# Values of which a subject has one at a time, so that another is another answer.
_ALTERNATIVES = """
tab space tabulator leerzeichen tabulador espacio
dark light dunkel hell sombre clair oscuro claro
vim neovim emacs nano vscode sublime
npm yarn pnpm bun
merge rebase squash
short long brief detailed verbose concise lang kurz court larg corto largo
formal informal casual
morning afternoon evening night
single double
metric imperial
low medium high
left right
daily weekly monthly yearly hourly
red green blue yellow orange purple black white
english german french spanish italian portuguese russian chinese japanese korean
first last
"""

_CALENDAR = """
monday tuesday wednesday thursday friday saturday sunday
montag dienstag mittwoch donnerstag freitag samstag sonntag
lundi mardi mercredi jeudi vendredi samedi dimanche
lunes martes miércoles jueves viernes sábado domingo
january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
januar februar märz mai juni juli oktober dezember
"""

# Written without spaces around them, these are looked for inside a sentence.
UNSPACED_PROPERTIES = ("截止日期", "期限", "名字", "端口", "版本", "密码", "生日", "締切", "名前")
DATE_UNITS = frozenset("年月日号號点點时時分")


def words(name: str) -> frozenset[str]:
    """One list, stemmed."""
    return _lists()[name]


@cache
def calendar() -> frozenset[str]:
    """Names of days and months."""
    return frozenset().union(*_groups(_CALENDAR))


def are_opposites(one: str, other: str) -> bool:
    """Whether of these two stemmed words one denies the other."""
    return frozenset((one, other)) in _opposites()


def are_alternatives(one: str, other: str) -> bool:
    """Whether of these two stemmed words only one can hold of a subject."""
    return any(one in group and other in group for group in _alternatives())


@cache
def _lists() -> dict[str, frozenset[str]]:
    rows = (row.split(": ", 1) for row in _LISTS.replace("\n    ", " ").strip().split("\n"))
    return {name: frozenset(map(stem, listed.split())) for name, listed in rows}


@cache
def _opposites() -> frozenset[frozenset[str]]:
    return frozenset(_groups(_OPPOSITES.replace(",", "\n")))


@cache
def _alternatives() -> tuple[frozenset[str], ...]:
    return tuple(_groups(_ALTERNATIVES + _CALENDAR))


def _groups(table: str) -> Iterator[frozenset[str]]:
    return (frozenset(map(stem, row.split())) for row in table.replace("\n    ", " ").strip().split("\n") if row)
