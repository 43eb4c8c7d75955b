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
    """Return a regular expression for any of the phrases, tried together where they begin with one letter."""
    begun: dict[str, list[str]] = {}
    for phrase in phrases:
        plain = phrase[0].isalpha() and phrase[1:2] not in tuple("?*+{|")
        begun.setdefault(phrase[0] if plain else phrase, []).append(phrase[1:] if plain else "")
    return "|".join(f"{letter}(?:{'|'.join(rest)})" if any(rest) else letter for letter, rest in begun.items())


@dataclass(frozen=True, slots=True)
class Contrasts:
    """Verbs and words of time, for `state.crystals.salience` and `state.signals.skills`."""

    copulas: Words
    living: Words
    choosing: Words
    relations: Words
    needs: Words
    properties: Words
    moments: Words
    calendar: Groups


@dataclass(frozen=True, slots=True)
class Statements:
    """The small words of a sentence, for `state.text.languages.detection` and `state.search`."""

    articles: Words
    linking: Words  # say nothing by themselves: "is", "of"
    prepositions: Words
    persons: Groups  # each with its name first, in English
    quantifiers: Words
    past: Words
    former: Phrases  # by which a question asks for what was before


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
