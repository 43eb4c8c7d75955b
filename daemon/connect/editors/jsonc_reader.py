"""Reader of JSON with comments and trailing commas: the values and where each of them stands."""

import json
import re
from dataclasses import dataclass, field

from daemon.connect.editors.parts import Node, Part
from daemon.connect.editors.splices import MOST_LEVELS, body_start, broken, checked

KIND = "JSON"
COMMENT = re.compile(r"//[^\r\n]*|/\*(?s:.*?)\*/")
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n]+)
      | (?P<comment>{COMMENT.pattern})
      | (?P<string>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")
      | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<word>true|false|null)
      | (?P<mark>[]\[{{}}:,])""",
    re.VERBOSE,
)


def root_of(text: str) -> Node | None:
    """The object that the text is, or None when it has nothing but comments and white space.

    Raises DocumentError where it is none, with line and column.
    """
    reader = _Reader(checked(KIND, text))
    if reader.token.kind == "end":
        return None
    if reader.token.kind != "{":
        raise reader.error("no object")
    root = reader.node(0)
    if reader.token.kind != "end":
        raise reader.error("something after the object")
    return root


@dataclass(frozen=True)
class _Token:
    """A piece of the text that is neither white space nor comment; a mark is its own kind."""

    kind: str
    start: int
    end: int


@dataclass
class _Reader:
    """Reads from the beginning to the end; `token` is the next, `before` where the one before or a comment ended."""

    text: str
    at: int = 0
    before: int = 0
    is_after_line_comment: bool = False
    token: _Token = field(init=False)

    def __post_init__(self) -> None:
        self.at = body_start(self.text)
        self.token = self._read()

    def error(self, why: str) -> Exception:
        """The error at the next token."""
        return broken(KIND, self.text, self.token.start, why)

    def _read(self) -> _Token:
        self.before, self.is_after_line_comment = self.at, False
        while self.at < len(self.text):
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                raise broken(KIND, self.text, self.at, _why(self.text[self.at]))
            start, self.at = self.at, match.end()
            if match.lastgroup == "comment":
                self.before, self.is_after_line_comment = self.at, self.text.startswith("//", start)
            elif match.lastgroup != "blank":
                return _Token(match[0] if match.lastgroup == "mark" else str(match.lastgroup), start, self.at)
        return _Token("end", self.at, self.at)

    def _next(self) -> _Token:
        token, self.token = self.token, self._read()
        return token

    def _expect(self, kind: str, name: str) -> _Token:
        if self.token.kind != kind:
            raise self.error(f"{name} is missing")
        return self._next()

    def node(self, level: int) -> Node:
        """The value that begins here."""
        if level > MOST_LEVELS:
            raise self.error(f"more than {MOST_LEVELS} levels")
        if self.token.kind in ("{", "["):
            return self._container(level)
        if self.token.kind not in ("string", "number", "word"):
            raise self.error("a value is missing")
        token = self._next()
        return Node(token.start, token.end, self._scalar(token))

    def _scalar(self, token: _Token) -> object:
        try:
            value: object = json.loads(self.text[token.start : token.end])
        except ValueError as error:  # an escape that is none, or a number of thousands of digits
            raise broken(KIND, self.text, token.start, "an unreadable value") from error
        return value

    def _container(self, level: int) -> Node:
        opening = self._next()
        closing = "}" if opening.kind == "{" else "]"
        parts: list[Part] = []
        while self.token.kind != closing:
            if parts and parts[-1].comma is None:
                raise self.error(f"',' or '{closing}' is missing")
            parts.append(self._part(level, is_member=opening.kind == "{"))
        end = self._next().end
        value: object = [part.node.value for part in parts]
        if opening.kind == "{":
            value = {part.name: part.node.value for part in parts}
        return Node(opening.start, end, value, opening.kind, tuple(parts))

    def _part(self, level: int, *, is_member: bool) -> Part:
        start, before, is_after = self.token.start, self.before, self.is_after_line_comment
        name = None
        if is_member:
            name = str(self._scalar(self._expect("string", "the name of a member")))
            self._expect(":", "':'")
        node = self.node(level + 1)
        comma = self._next().end if self.token.kind == "," else None
        return Part(start, node, before, is_after, name, comma)


def _why(letter: str) -> str:
    return {'"': "a text without its end", "/": "a comment without its end"}.get(letter, f"an unexpected {letter!a}")
