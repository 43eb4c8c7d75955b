"""What the owner wants done about secrets: `secrets.redact` and `secrets.allow` of the configuration, as a value.

Apart from `state.secrets.redaction`, whose patterns take a while to compile: a dream's snapshot carries this one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_WORDS = re.compile(r"[A-Za-z ,.!?\n]*")
# Their secrets may be plain words.
_SERIES = re.compile(r"phrase|seed|mnemonic|wallet|words|fras[ei]|satz|zin", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Whether secrets go, and which texts only look like one."""

    on: bool = True
    allow: tuple[str, ...] = ()

    def of(self, text: str) -> str:
        """The text as it may be remembered or sent: without its secrets, unless the owner switched that off."""
        if not self.on or _are_words(text):
            return text
        from state.secrets.redaction import redact

        return redact(text, self.allow).text

    def kinds(self, text: str) -> tuple[str, ...]:
        """The kinds of the secrets in a text, each once; none where the owner switched that off."""
        if not self.on or _are_words(text):
            return ()
        from state.secrets.redaction import redact

        return tuple(dict.fromkeys(one.kind for one in redact(text, self.allow).found))

    def of_table(self, table: Mapping[str, str]) -> dict[str, str]:
        """The same of each value, whose name may say that it is one."""
        return {self.of(name): self._named(name, value) for name, value in table.items()}

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


def _are_words(text: str) -> bool:
    """Whether a text is nothing but plain words: reading the rules for it would take longer than a short command."""
    return bool(_WORDS.fullmatch(text)) and not _SERIES.search(text)


DEFAULT = Redaction()
