"""Some HTML as a parser reads it, and what in it cannot come of our templates."""

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser

from daemon.pages.templates import environment

# Of an attribute in which an address stands; the rest of htmx's attributes is ours as it is.
_ADDRESSED = {"href", "src", "action", "formaction", "data", "poster", "srcset", "xlink:href", "hx-sse:connect"}
_ADDRESSED |= {f"hx-{method}" for method in ("get", "post", "put", "delete", "patch")}
_WORDED = {"title", "value", "aria-label", "placeholder"}
_OURS = re.compile(
    r"/(?:|events\?seen=(?:[0-9a-f]{16})?|logout|fleet\.json|static/[\w.-]+/[\w.-]+|w/(?P<name>[a-z0-9-]+)/[a-z_]+(?:\.json|/[a-z_-]+)?(?:\?[^\s<>\"']*)?(?:#[\w%.-]+)?)"
    r"|#[\w-]+",
    re.ASCII,
)
_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
# Made by filters.
_FILTERED = '<time datetime="" title=""></time><code></code><strong></strong><span class=""></span>'


class Parsed(HTMLParser):
    """What stands in some HTML: its elements with their attributes, its texts, one by one and joined, and the rest.

    `typed` is what a person can edit: it is a text as it is, without the signs of what is visible.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.others: list[str] = []
        self.texts: list[str] = []
        self.text = self.typed = ""
        self._is_typed = False
        self.feed(str(text))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._is_typed = tag == "textarea"
        if len(attrs) > len(dict(attrs)):
            self.others.append(f"an attribute twice: {tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the parser calls it so
        self._is_typed = False

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._is_typed:
            self.typed += data
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def handle_decl(self, decl: str) -> None:
        self.others.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.elements]

    @property
    def addresses(self) -> list[str]:
        """Where links lead, and what htmx asks for."""
        return [
            value
            for _, row in self.elements
            for name, value in row.items()
            if name in {"href", "hx-get"} and value and value.startswith("/w/")
        ]


@cache
def _written() -> tuple[frozenset[str], frozenset[str]]:
    """The elements and the attributes that stand in the templates."""
    made = environment()
    assert made.loader
    sources = [made.loader.get_source(made, name)[0] for name in made.list_templates(["html"])]
    every = Parsed("".join(plain(source) for source in (*sources, _FILTERED)))
    return frozenset(every.names), frozenset(name for _, row in every.elements for name in row)


def plain(source: str) -> str:
    """A template's HTML, whatever it prints and whichever way it goes."""
    return re.sub(r"\{%.*?%\}", " ", _EXPRESSION.sub("x", source), flags=re.DOTALL)


def strangers(html: str, name: str) -> list[str]:
    """What in a page of this workspace no template of ours has written: elements, attributes, addresses, ids."""
    page = Parsed(html)
    elements, attributes = _written()
    found = [f"not text: {one[:80]}" for one in page.others if one != "doctype html"]
    ids = Counter[str | None]()
    for tag, row in page.elements:
        found += [f"element {tag} {row}"[:200]] if tag not in elements else []
        ids.update(value for key, value in row.items() if key == "id")
        for key, value in row.items():
            if key in _ADDRESSED:
                is_ours = _is_ours(value or "", name)
            else:
                is_ours = key in _WORDED or "mark-" not in (value or "")
            if key not in attributes or not is_ours:
                found.append(f"{tag} {key}={value}"[:200])
    found += [f"twice: id={one}" for one, count in ids.items() if count > 1]
    found += [f"steers: {ord(one):04X}" for one in sorted(set(page.text)) if _STEERS.match(one)]
    return found


_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def _is_ours(address: str, name: str) -> bool:
    found = _OURS.fullmatch(address)
    return found is not None and found["name"] in {None, name}
