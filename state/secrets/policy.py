"""The owner's policy for secrets: `secrets.redact` and `secrets.allow` of the configuration, as a value.

Separate from `state.secrets.redaction`, whose patterns are slow to compile, because a dream's snapshot carries it.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from state.text.patterns import late_pattern

if TYPE_CHECKING:
    from state.secrets.redaction import Finding

# Words, small numbers, times of day: no key or token looks like that, and nothing looks like a chosen password.
_PLAIN = late_pattern(
    r"\s*(?:(?:[A-Z]?[a-z]+(?:['-][a-z]+)*|[A-Z]{1,5}|\d{1,5}(?:[:.]\d{1,2})?(?! ?\d))[,.!?]?(?:[ \n]+|$))*+"
)
_WORD = late_pattern(r"[a-z]+")
# As many words as the shortest seed phrase has; a word starts where no letter precedes it.
_WALLET = late_pattern(r"(?<![a-z])(?:[a-z]{3,}+[^a-z]++){11}[a-z]{3}")
# A noun of at most this many characters only counts as a whole word, or as two.
SHORT = 5
# Endings of one-word names that a value may follow without a separator: mypw …
_ENDINGS = ("pw", "psk")
# Kinds that may be recognised only by the words around a value. Of a seed phrase nothing is kept in any case.
_TOLD = frozenset({"password", "pin", "secret", "recovery code"})
NOUNS = Path(__file__).with_name("plain_nouns.txt")


class Redaction(NamedTuple):
    """Whether secrets are redacted, and which texts only look like one."""

    on: bool = True
    allow: tuple[str, ...] = ()

    def of(self, text: str, known: Sequence[str] = ()) -> str:
        """Return the text without its secrets, as it may be stored or sent; unchanged if redaction is off.

        What a text of `known`, redacted before, shows in the clear is no secret in this one either.
        """
        return self._redacted(text, known)[0]

    def across(self, text: str) -> str:
        """Return a text of many lines without its private keys and seed phrases, which may take several of them."""
        if not self.on:
            return text
        from state.secrets.redaction import redact_across

        return redact_across(text, self.allow)

    def kinds(self, text: str) -> tuple[str, ...]:
        """Return the kinds of the secrets in a text, each once; none if redaction is off."""
        return tuple(dict.fromkeys(one.kind for one in self._redacted(text)[1]))

    def doubtful(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return the text without its certain secrets, and the kinds of those that only context suggests."""
        from state.secrets.redaction import replaced
        from state.secrets.value import looks_drawn

        _, found = self._redacted(text)
        told = [one for one in found if one.kind in _TOLD and not looks_drawn(text[one.start : one.end])]
        certain = [one for one in found if one not in told]
        return replaced(text, certain), tuple(dict.fromkeys(one.kind for one in told))

    def _redacted(self, text: str, known: Sequence[str] = ()) -> "tuple[str, tuple[Finding, ...]]":
        if not self.on or is_plain(text):
            return text, ()
        from state.secrets.redaction import redact

        done = redact(text, self.allow, known=known)
        return done.text, done.found

    def of_table(self, table: Mapping[str, str]) -> dict[str, str]:
        """Redact each value; its name may reveal that it is a secret."""
        return {self.of(name): self._named(name, value) for name, value in table.items()}

    def of_json(self, value: Any) -> Any:  # noqa: ANN401 - JSON has no better type
        """Redact each string in JSON, including keys."""
        if isinstance(value, str):
            return self.of(value)
        if isinstance(value, list):
            return [self.of_json(one) for one in value]
        if isinstance(value, Mapping):
            texts = self.of_table({name: one for name, one in value.items() if isinstance(one, str)})
            rest = {self.of(name): self.of_json(one) for name, one in value.items() if not isinstance(one, str)}
            order = {self.of(name): None for name in value}
            return {name: texts[name] if name in texts else rest[name] for name in order}
        return value

    def _named(self, name: str, value: str) -> str:
        if not self.on:
            return value
        from state.secrets.redaction import redact

        head = f"{name}: "
        text = head + value
        pieces, at = list[str](), len(head)
        for one in redact(text, self.allow).found:
            pieces += [text[at : max(at, one.start)], one.mark]
            at = max(at, one.end)
        return "".join([*pieces, text[at:]])


def is_plain(text: str) -> bool:
    """Return whether a text is only words and small numbers without a noun for a secret, so that it contains none.

    It saves loading the rules, which takes as long as everything else in a short command.
    """
    if not text:
        return True
    if not _PLAIN.fullmatch(text):
        return False
    lowered = text.lower()
    words = _WORD.findall(lowered)
    if _WALLET.search(lowered) or any(word.endswith(_ENDINGS) for word in words):
        return False
    short, long = _nouns()
    joined = "".join(lowered.replace("-", " ").split())
    return (
        short.isdisjoint(words)
        and short.isdisjoint(map(add, words, words[1:]))
        and not any(noun in joined for begin in _beginnings(joined) & long.keys() for noun in long[begin])
    )


@cache
def _nouns() -> tuple[frozenset[str], dict[str, list[str]]]:
    """Return short nouns for secrets, and long ones by their first letters, without nouns of locked things."""
    # A copy of what `state.secrets.languages` reads from all its files, fifty times faster.
    nouns = NOUNS.read_text(encoding="ascii").split()
    long: dict[str, list[str]] = {}
    for key in nouns:
        if len(key) > SHORT:
            long.setdefault(key[:SHORT], []).append(key)
    return frozenset(key for key in nouns if len(key) <= SHORT), long


def _beginnings(text: str) -> set[str]:
    return {text[at : at + SHORT] for at in range(len(text) - SHORT)}


DEFAULT = Redaction()
