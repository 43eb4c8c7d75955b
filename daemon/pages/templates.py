"""Templates: the one place where a text becomes HTML: everything that is printed passes through here and is escaped.

Memory text is hostile. Autoescape makes of it text in an element or in a quoted attribute, `visible` makes signs of
the characters that steer what is shown (directions, controls), and there is no filter that takes a text for HTML.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from unicodedata import bidirectional
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from daemon.api.operations.search import how_likely
from daemon.api.shapes import duration
from daemon.journal.crystal import Evidence
from daemon.journal.summary import dollars, local_day
from daemon.workspace.status import verdict
from state.text.word_diff import changes_in_row
from state.text.words import counted
from state.trust import Trust

if TYPE_CHECKING:
    from jinja2 import Environment

# Of a text in a table so much is shown, and of one on a page of its own.
SHORT, LONG = 300, 12_000
_STEERING = (
    *(code for code in range(0x20) if chr(code) not in "\n\t"),
    *range(0x7F, 0xA0), 0x061C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF,
    *range(0xFFF9, 0xFFFC), *range(0xD800, 0xE000), *range(0xE0000, 0xE0080),
)  # fmt: skip
_VISIBLE = {code: f"⟨{code:04X}⟩" for code in _STEERING}
# A run of backticks is ended by one as long; what is marked is bounded, or each run is looked for to the end.
_MARKS = re.compile(
    r"(?<!`)(?P<tick>`++)(?P<code>.{1,1000}?)(?<!`)(?P=tick)(?!`)|\*\*(?P<strong>[^*]+)\*\*", re.DOTALL
)
# More marks on one letter than any script has would run over the lines above and below.
_COMBINING = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_STACKED = re.compile(f"({_COMBINING}{{4}}){_COMBINING}+")
_NIGHT = 6  # the hour at which it ends


def visible(text: str) -> str:
    """Return the text with a sign in place of each character that would steer how the rest is shown."""
    return _STACKED.sub(r"\1", text.translate(_VISIBLE))


@cache
def environment() -> "Environment":
    """Return the environment of every template; made once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("daemon.pages", "html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    figures = (ago, soon, day, on_day, moment, number, dollars, counted, seconds)
    texts = (short, prose, cut, mark, exact, query, how_likely, speaker, verdict, way)
    made.filters |= {one.__name__: one for one in (*figures, *texts)} | {"path": path_part}
    made.globals["row_of"] = changes_in_row
    made.globals["ui"] = made.get_template("parts.html").module
    return made


def rendered(template: str, values: Mapping[str, Any], *, fragment: bool = False) -> str:
    """Render the page; or its own part alone, for a page that is there already."""
    return (
        environment().get_template(template).render({**values, "layout": "part.html" if fragment else "layout.html"})
    )


def _finalized(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    return visible(value) if isinstance(value, str) else value


def exact(value: object) -> Markup:
    """Return what a form sends back, without the signs that `visible` puts in: hidden fields, and texts to edit."""
    return escape(str(value).encode("utf-8", "replace").decode("utf-8"))


def way(text: object) -> str:
    """Return the direction of a text, by most of its letters: a foreign name at its beginning does not turn it."""
    kinds = Counter(map(bidirectional, str(text or "")[:LONG]))
    right, left = kinds["R"] + kinds["AL"], kinds["L"]
    return "rtl" if right > left else "ltr" if left else "auto"


def short(text: str, most: int = SHORT) -> str:
    """Return the beginning of a long text, on one line."""
    line = " ".join(text.split()) if len(text) <= 4 * most else " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def prose(text: str, most: int = LONG) -> Markup:
    """Return a text with its `code` and **strong** words marked. A longer one is cut, and says so."""
    shown, parts, end = text[:most], list[Markup](), 0
    for mark in _MARKS.finditer(shown):
        parts.append(Markup("{}").format(visible(shown[end : mark.start()])))
        kind = "code" if mark["code"] is not None else "strong"
        parts.append(Markup("<{0}>{1}</{0}>").format(kind, visible(mark[kind])))
        end = mark.end()
    return Markup("").join((*parts, cut(text[end:], most - end)))


def cut(text: str, most: int = LONG) -> Markup:
    """Return the text as it is. A longer one is cut, and says so."""
    shown = Markup("{}").format(visible(text[:most]))
    if len(text) <= most:
        return shown
    return shown + Markup('<span class="cut"> … and {}</span>').format(counted(len(text) - most, "more character"))


def ago(at: datetime | None, now: datetime) -> Markup:
    """Say how long ago, or until when, as a <time>."""
    if at is None:
        return Markup("–")
    span = (now - at).total_seconds()
    words = f"{duration(span)} ago" if span > -1 else f"in {duration(-span)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), moment(at), words)


def day(at: date, now: date) -> str:
    """Return what people call a day."""
    return "today" if at.isoformat()[:10] == now.isoformat()[:10] else local_day(at, now)


def on_day(at: datetime, now: datetime) -> Markup:
    """Say on which day, as people do, as a <time>."""
    said = day(at, now) if at.date() == now.date() else f"on {day(at, now)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), moment(at), said)


def soon(at: datetime, now: datetime) -> str:
    """Say when something will be."""
    if at <= now:
        return "as soon as it can"
    match (at.date() - now.date()).days:
        case 0:
            when = ""
        case 1:
            when = "tonight " if at.hour < _NIGHT else "tomorrow "
        case _:
            when = f"{local_day(at, now)} "
    return f"{when}at {at:%H:%M}"


def speaker(piece: Evidence) -> str:
    """Say whose words a piece of evidence is."""
    if piece.trust == Trust.OWNER:
        return f"{piece.speaker} said" if piece.speaker else "You said"
    heard = ", after it had read a page or a tool's output" if piece.heard else ""
    said = {"agent": "It was noted", "web": "A page says", "tool": "A tool answered"}
    return f"{said.get(piece.trust, 'It was said')}{heard}"


def moment(at: datetime | None) -> str:
    """Say a moment with its zone."""
    return f"{at:%Y-%m-%d %H:%M:%S %Z}" if at else ""


def seconds(span: float) -> str:
    """Say the time that something took."""
    return f"{span * 1000:.0f} ms" if span < 1 else f"{span:.1f} s" if span < 100 else duration(span)


def number(value: int) -> str:
    """Write a number with its thousands apart."""
    return f"{value:,}"


def mark(text: str) -> str:
    """Return what names a text in an address, without a word of it."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def path_part(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text, safe="", errors="replace")


def query(values: Mapping[str, object]) -> str:
    """Return fields as a query, without the empty ones."""
    return urlencode(
        {name: value for name, value in values.items() if value not in (None, "", False, ())},
        doseq=True,
        errors="replace",
    )
