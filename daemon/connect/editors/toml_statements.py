"""Statements of a TOML text: its headers and entries, what each of them is about and where it stands."""

import re
import tomllib
from dataclasses import dataclass, field

from daemon.connect.editors.parts import Node, Part
from daemon.connect.editors.splices import MOST_LEVELS, body_start, broken, checked

KIND = "TOML"
COMMENT = re.compile(r"#[^\r\n]*")
BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)
      | (?P<line>\r?\n)
      | (?P<comment>\#[^\r\n]*)
      | (?P<long>\"{3}(?s:[^"\\]*(?:(?:\\.|\"{1,2}(?!"))[^"\\]*)*)\"{3,5}|'{3}(?s:.*?)'{3,5})
      | (?P<string>"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"|'[^'\r\n]*')
      | (?P<mark>[][{}=,.])
      | (?P<bare>[^][{}=,.\s\x00-\x1f"'\#]+)""",
    re.VERBOSE,
)

# The number of an element stands in a path behind the name of its array of tables.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Statement:
    """A header, or an entry with its value, from `start` to `end` without a comment behind it.

    `path` is that of the table or of the value, `table` that of the table whose header it stands under.
    """

    start: int
    end: int
    path: Place
    table: Place
    node: Node | None = None

    @property
    def is_header(self) -> bool:
        """Whether it is `[table]` or `[[table]]`."""
        return self.node is None


def statements_of(text: str) -> list[Statement]:
    """All of them in their order; what is no TOML is found here or, if it is not seen here, by `tomllib`."""
    return _Reader(checked(KIND, text)).statements()


@dataclass(frozen=True)
class _Token:
    kind: str
    start: int
    end: int


@dataclass
class _Reader:
    """Reads from the beginning to the end; `token` is the next that is neither blank nor comment."""

    text: str
    at: int = 0
    before: int = 0
    is_after_comment: bool = False
    elements: dict[Place, int] = field(default_factory=dict)
    token: _Token = field(init=False)

    def __post_init__(self) -> None:
        self.at = body_start(self.text)
        self.token = self._read()

    def statements(self) -> list[Statement]:
        """The headers and entries from here to the end."""
        found: list[Statement] = []
        table: Place = ()
        while self.token.kind != "end":
            if self.token.kind == "line":
                self._next()
            elif self.token.kind == "[":
                found.append(self._header())
                table = found[-1].path
            else:
                start, keys = self.token.start, self._keys()
                self._expect("=")
                node = self._node(0)
                found.append(Statement(start, node.end, (*table, *keys), table, node))
        return found

    def _header(self) -> Statement:
        start = self._next().start
        is_element = self.token.kind == "["
        if is_element:
            self._next()
        keys = self._keys()
        end = self._expect("]")
        if is_element:
            end = self._expect("]")
        path: Place = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            if is_element and number == len(keys) - 1:
                self.elements[path] = self.elements.get(path, 0) + 1
            if path in self.elements:
                path = (*path, self.elements[path] - 1)
        return Statement(start, end, path, path)

    def _keys(self) -> tuple[str, ...]:
        keys: list[str] = []
        while True:
            token = self._next()
            raw = self.text[token.start : token.end]
            if token.kind == "bare":
                keys.append(raw)
            elif token.kind == "string":
                keys.append(raw[1:-1] if raw[0] == "'" else self._unquoted(token))
            else:
                raise broken(KIND, self.text, token.start, "a name is missing")
            if self.token.kind != ".":
                return tuple(keys)
            if len(keys) == MOST_LEVELS:
                raise self._error(f"more than {MOST_LEVELS} levels")
            self._next()

    def _unquoted(self, token: _Token) -> str:
        try:
            return str(tomllib.loads(f"name = {self.text[token.start : token.end]}")["name"])
        except tomllib.TOMLDecodeError as error:
            raise broken(KIND, self.text, token.start, "an unreadable name") from error

    def _node(self, level: int) -> Node:
        """The value that begins here."""
        if level > MOST_LEVELS:
            raise self._error(f"more than {MOST_LEVELS} levels")
        if self.token.kind in ("[", "{"):
            return self._container(level)
        start, end = self.token.start, self.token.start
        while self.token.kind in ("bare", ".", "string", "long"):  # a number, a date and a time have several
            end = self._next().end
        if start == end:
            raise self._error("a value is missing")
        return Node(start, end)

    def _container(self, level: int) -> Node:
        opening = self._next()
        closing = "]" if opening.kind == "[" else "}"
        parts: list[Part] = []
        self._skip_lines()
        while self.token.kind != closing:
            if parts and parts[-1].comma is None:
                raise self._error(f"',' or '{closing}' is missing")
            parts.append(self._part(level, is_member=opening.kind == "{"))
            self._skip_lines()
        return Node(opening.start, self._next().end, None, opening.kind, tuple(parts))

    def _part(self, level: int, *, is_member: bool) -> Part:
        start, before, is_after = self.token.start, self.before, self.is_after_comment
        keys: tuple[str, ...] = ()
        if is_member:
            keys = self._keys()
            self._expect("=")
        node = self._node(level + 1)
        self._skip_lines()
        comma = self._next().end if self.token.kind == "," else None
        return Part(start, node, before, is_after, keys[0] if len(keys) == 1 else None, comma)

    def _skip_lines(self) -> None:
        """To the next token that is no end of a line, from behind the last one before it."""
        before, is_after = self.before, self.is_after_comment
        while self.token.kind == "line":
            self._next()
            if self.is_after_comment:
                before, is_after = self.before, True
        if not self.is_after_comment:
            self.before, self.is_after_comment = before, is_after

    def _error(self, why: str) -> Exception:
        return broken(KIND, self.text, self.token.start, why)

    def _expect(self, kind: str) -> int:
        if self.token.kind != kind:
            raise self._error(f"'{kind}' is missing")
        return self._next().end

    def _next(self) -> _Token:
        token, self.token = self.token, self._read()
        return token

    def _read(self) -> _Token:
        self.before, self.is_after_comment = self.at, False
        while self.at < len(self.text):
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                raise broken(KIND, self.text, self.at, f"an unexpected {self.text[self.at]!a}")
            start, self.at = self.at, match.end()
            if match.lastgroup == "comment":
                self.before, self.is_after_comment = self.at, True
            elif match.lastgroup != "blank":
                return _Token(match[0] if match.lastgroup == "mark" else str(match.lastgroup), start, self.at)
        return _Token("end", self.at, self.at)
