"""Late patterns: regular expressions compiled at first use, for commands that need only a few of them.

Compiling those of redaction alone takes longer than everything else in a short command.
"""

import re
from typing import Any, cast

# Thai, Lao, Tibetan, Myanmar, Khmer, kana, Bopomofo, Hangul, Han with extensions, for a character class.
UNSPACED = (
    r"\u0e00-\u0fff\u1000-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)


def late_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern like `re.compile`, but compile it at first use."""
    return cast("re.Pattern[str]", _Late(source, flags))


class _Late:
    """Stands in for a compiled pattern and takes over its methods one by one."""

    def __init__(self, source: str, flags: int) -> None:
        self.pattern = source
        self._given = flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a pattern has
        # Python calls this only for missing attributes: the second call of a method is as fast as on the pattern.
        found = getattr(re.compile(self.pattern, self._given), name)
        setattr(self, name, found)
        return found
