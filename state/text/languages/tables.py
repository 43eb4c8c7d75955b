"""Tables of words: which rows a language has, and who reads them.

A file of this folder has a table of each name here, in small letters, with a row for each field. A field with a
default may be left out; all others are there in each language that is not marked as partial.
"""

from dataclasses import dataclass, field

Words = tuple[str, ...]
Groups = tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Phrases:
    """Regular expressions: of languages that part their words by spaces, and of those that do not.

    One that begins with a letter has alternatives in brackets only.
    """

    spaced: Words = ()
    unspaced: Words = ()

    @property
    def pattern(self) -> str:
        """A regular expression for any of them; whole words where there are spaces."""
        spaced = rf"(?<!\w)(?:{either(self.spaced)})(?!\w)" if self.spaced else ""
        return "|".join(filter(None, (spaced, *self.unspaced))) or r"(?!)"


def either(phrases: Words) -> str:
    """A regular expression for any of the phrases, tried together where they begin with the same letter."""
    begun: dict[str, list[str]] = {}
    for phrase in phrases:
        plain = phrase[0].isalpha() and phrase[1:2] not in tuple("?*+{|")
        begun.setdefault(phrase[0] if plain else phrase, []).append(phrase[1:] if plain else "")
    return "|".join(f"{letter}(?:{'|'.join(rest)})" if any(rest) else letter for letter, rest in begun.items())


@dataclass(frozen=True, slots=True)
class Contrasts:
    """What makes two lines opposites, for `state.crystals`."""

    negators: Words
    no_negation: Phrases  # in which a negator is none: "not only"
    no_longer: Phrases  # a negation; what it has in brackets stays: "kein (Tee) mehr"
    fillers: Phrases  # say nothing beside a negation, or beside the lack of one
    copulas: Words
    past: Words  # of the copulas
    living: Words
    places: Words
    choosing: Words
    over: Phrases  # between what is chosen and what is not
    but_not: Words  # the same, after a comma
    articles: Words
    relations: Words
    needs: Words
    opinions: Words
    properties: Words
    refusing: Words
    moments: Words
    emphasis: Words
    revision: Words
    opposites: Groups
    alternatives: Groups  # of which a subject has one at a time, so that another is another answer
    calendar: Groups
    date_units: Words = ()


@dataclass(frozen=True, slots=True)
class Statements:
    """By which words two statements are compared, for `state.text.statement`."""

    articles: Words
    linking: Words  # say nothing by themselves: "is", "of"
    prepositions: Words
    persons: Groups  # each with its name first, in English
    pleasantries: Phrases
    months: Groups  # each with "m" and its number first
    days: Groups  # each with "d" and its number first
    numerals: Groups  # each with its digits first
    equal: Groups  # any word of a group for any other
    quantifiers: Words
    daytimes: Words
    possible: Words
    reporting: Words
    past: Words
    change: Phrases  # that something is no longer as it was
    former: Phrases  # by which a question asks for what was before
    additional: Phrases
    single_valued: Words  # of which a subject has one value at a time: "lives", "port"
    many_valued: Words


@dataclass(frozen=True, slots=True)
class Signs:
    """What tells the kind and importance of a turn, for `state.crystals.salience`."""

    remember: Phrases
    dates: Phrases  # but for months, which `Times` has
    by: Phrases  # stands before a date that is a deadline; behind it where there are no spaces
    deadline: Phrases
    preference: Phrases
    decision: Phrases
    relationship: Phrases
    insight: Phrases
    goal: Phrases
    pattern: Phrases
    deed: Phrases  # work that was done; a text begins so
    episode: Phrases
    small_talk: Phrases


@dataclass(frozen=True, slots=True)
class Times:
    """Dates and what is said of time, for `state.search.dates`."""

    months: Groups  # twelve; the first form of each is its name, and what that begins with its abbreviation
    capital: Words  # months that need one where no day or year stands beside them
    weekdays: Words
    relative: Words  # these mean another day on another day
    near: Words  # what is said so lies some weeks away at most
    today: Phrases
    yesterday: Phrases
    this_week: Phrases
    last_week: Phrases
    this_month: Phrases
    last_month: Phrases
    this_year: Phrases
    last_year: Phrases

    @property
    def month_names(self) -> Words:
        """The names of the months in all their forms but abbreviations."""
        return tuple(
            form for forms in self.months for form in forms if form == forms[0] or not forms[0].startswith(form)
        )


@dataclass(frozen=True, slots=True)
class Feelings:
    """Which words tell of an event, for `state.signals.event_lexicon`. Cues with spaces are plain words."""

    reward: Phrases
    error: Phrases
    social: Phrases
    achievement: Phrases
    urgency: Phrases
    denied: Phrases  # what is an error when it is denied
    followers: Groups  # a cue, and the words before which it tells nothing
    denied_followers: Groups
    negators: Words
    after: Words  # negators that stand behind
    scope_ends: Words
    conditions: Words
    plans: Words
    imperatives: Words
    mended: Words
    but: Words
    unreal: Phrases = field(default_factory=Phrases)


@dataclass(frozen=True, slots=True)
class Curiosity:
    """What makes a sentence an open question, for `state.signals.curiosity`."""

    opens: Phrases
    closed: Phrases  # the same, denied
    label: Phrases  # stands before a question
    phatic: Phrases  # is said in passing to the other person, not asked of memory


@dataclass(frozen=True, slots=True)
class Common:
    """The words that every text has, for `state.text.words`. Negations are none, nor what another language needs."""

    stop: Words


@dataclass(frozen=True, slots=True)
class Reports:
    """Denial, and what others are said to have said, for `state.attribution`. An asterisk stands for any ending."""

    negators: Words
    light: Words  # said of whoever is spoken of, or so often that it tells nothing
    doubted: Words  # what a text is that is not believed
    sources: Words  # who is neither the agent nor its owner
    saying: Words
    conjunctions: Words
    subordinating: Words  # begin what a clause that denies denies also: "I do not think, that …"
    instead: Words
    denying_prefixes: Words
    denies: Phrases = field(default_factory=Phrases)
    reported: Phrases = field(default_factory=Phrases)


@dataclass(frozen=True, slots=True)
class Changes:
    """What tells that something is no longer as it was, for `graphs.evidence.support`."""

    no_longer: Phrases
    spoke: Words  # who only speaks of something says nothing of it
    conjunctions: Words


@dataclass(frozen=True, slots=True)
class Numerals:
    """Words that spell a number, in groups by its value, for `graphs.evidence.numbers`."""

    cardinals: Groups  # one to twelve
    ordinals: Groups
    tens: Groups  # twenty to ninety
    multiples: Groups  # once, twice, thrice
    ambiguous: Words  # mostly mean something else: articles, verbs
    amounts: Groups  # by so much something is moved, digits first: of a week the days, of half an hour the minutes


@dataclass(frozen=True, slots=True)
class Sections:
    """How a turn and a name are known, for `graphs.extractive` and `state.document.placement`."""

    answer: Phrases  # a turn that begins so needs the one before it
    naming: Phrases  # the name of the user follows


@dataclass(frozen=True, slots=True)
class Topics:
    """What a text is about, for `state.document.placement`; a word that ends in * may have any ending."""

    speaker: Words  # who speaks speaks of themselves
    together: Words
    traits: Words  # of an agent: what it is good at, its habits and principles
    called: Words
    person: Words  # one person that is spoken of, and the words for a user
    titles: Words
    family: Words
    life: Words  # where somebody comes from, health, body, days and pastimes
    tastes: Words  # what somebody likes, and how they want to be spoken to
    trust: Words
    trade: Words  # selling, buyers, ratings, competition
    agents: Words
    work: Words  # things that work is done with or on
    progress: Words  # how far it is, decided, broken, due
    needs: Words
    unknown: Words
