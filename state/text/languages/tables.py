"""Tables of words: which rows a language has, and who reads them.

A file of this folder has a table of each name here, in small letters, with a row for each field. A field with a
default may be left out; all others are there in each language that is not marked as partial.
"""

from dataclasses import dataclass

Words = tuple[str, ...]
Groups = tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Phrases:
    """Regular expressions for folded text: of languages that part their words by spaces, and of those that do not."""

    spaced: Words = ()
    unspaced: Words = ()

    @property
    def pattern(self) -> str:
        """A regular expression for any of them; whole words where there are spaces."""
        spaced = rf"(?<!\w)(?:{'|'.join(self.spaced)})(?!\w)" if self.spaced else ""
        return "|".join(filter(None, (spaced, *self.unspaced))) or r"(?!)"


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
