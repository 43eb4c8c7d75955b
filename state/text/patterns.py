"""Late patterns: regular expressions that are compiled at first use, for commands that need few of them.

To compile those of redaction alone takes longer than all else that a short command does.
"""

import re
from typing import Any, cast


def late_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` does, but compiled at its first use."""
    return cast("re.Pattern[str]", _Late(source, flags))


class _Late:
    """Stands for a compiled pattern, whose methods it takes over one by one."""

    def __init__(self, source: str, flags: int) -> None:
        self.pattern = source
        self._given = flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a pattern has
        # Python asks here only for what is not there yet: from the second time on a method is as fast as ever.
        found = getattr(re.compile(self.pattern, self._given), name)
        setattr(self, name, found)
        return found
