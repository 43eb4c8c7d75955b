"""Passwords and tokens in addresses: scheme://user:password@host."""

from collections.abc import Iterator

from state.secrets.value import is_placeholder, looks_drawn
from state.text.patterns import late_pattern

_ADDRESS = late_pattern(r"://[^\s:/@\"'<>]{0,255}:(?!\d{1,5}(?:[/?#]|$))([^\s\"'<>]{1,512})")
# A token in the place of the user, as in an address of git.
_TOKEN = late_pattern(r"://([\w-]{20,255})(?::(?:x-oauth-basic|)?)?@")
_HOST = late_pattern(r"(?:\[[0-9A-Fa-f:.%]{2,60}\]|[A-Za-z0-9_][\w.:-]{0,255})(?=[:/?#,;)\s\"'`*\\]|$)|[${<%]")


def addresses(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each of them."""
    if "://" not in text:
        return
    for match in _ADDRESS.finditer(text):
        at = match[1].rfind("@")
        for _ in range(8):
            if at <= 0 or _HOST.match(text, match.start(1) + at + 1):
                break
            at = match[1].rfind("@", 0, at)
        if at > 0 and not is_placeholder(match[1][:at]):
            yield "password in an address", match.start(1), match.start(1) + at
    for match in _TOKEN.finditer(text):
        if looks_drawn(match[1]):
            yield "token in an address", *match.span(1)
