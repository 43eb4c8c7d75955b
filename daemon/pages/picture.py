"""Picture: the life of a memory as a drawing: what stands where, as values that its template draws.

Places across are in percent of the width, so that the drawing is as wide as the page and its words stay legible;
places down are in pixels. The lines of the sections are drawn apart, in their own measure: spans across, lines up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from urllib.parse import urlencode

from daemon.journal.life import Life
from daemon.journal.summary import dollars, local_day
from state.document.sections import SectionName
from state.stores.history.ledger import Span
from state.text.words import counted

HEIGHT = 290
_TOP, _LINES, _LEARNT, _MARKS, _COST, _BAR = 10, 150, 206, 244, 272, 24
_TICKS, _DAYS = 4, 5  # at most so many beside the lines, and below
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_STACKED = (*(one for one in SectionName if one is not SectionName.POINTERS), SectionName.POINTERS)
_LIGHT = 0.02  # of the height of a bar, what is more than nothing has at least so much


@dataclass(frozen=True, slots=True)
class Band:
    """The lines of one section over time, as the path of an area; `place` is that of the section."""

    name: str
    place: int
    path: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A bar (learnt, changed, left, cost), a mark (failed, yours) or a word beside the drawing or below."""

    kind: str
    x: str
    y: float
    width: str = ""
    height: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A span in words and figures, and the address that it leads to; `x` and `width` are those of its link."""

    when: str
    told: str
    address: str
    x: str
    width: str
    span: Span


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is drawn; `spans` and `most` are the measure of the bands."""

    spans: int
    most: int
    bands: tuple[Band, ...]
    shapes: tuple[Shape, ...]
    ticks: tuple[Shape, ...]
    days: tuple[Shape, ...]
    rows: tuple[Row, ...]
    ceiling: float | None
    cost: str
    height: int = HEIGHT

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of bars and marks that there are."""
        there = {one.kind for one in self.shapes}
        return [kind for kind in ("learnt", "changed", "left", "failed", "yours", "cost") if kind in there]


def picture_of(life: Life, now: datetime) -> Picture:
    """Return the drawing of a life."""
    step = timedelta(hours=life.hours)
    spans = max(1, ceil((life.stop - life.start) / step - 0.05))  # a day may be an hour longer
    highest = max(sum(life.before.values()), *(one.total for one in life.spans), 1)
    tick = next((one for one in _STEPS if highest <= one * _TICKS), _STEPS[-1])
    most = -(-highest // tick) * tick
    placed = [(round((one.at - life.start) / step), one) for one in life.spans]
    allowed, dearest = life.usd_per_day * max(1.0, life.hours / 24), max((one.usd for one in life.spans), default=0.0)
    scale = allowed if dearest * 4 >= allowed else dearest
    return Picture(
        spans=spans,
        most=most,
        bands=tuple(_bands(life, placed, spans)),
        shapes=tuple(_shapes(placed, spans, scale)),
        ticks=tuple(
            Shape(f"{at:,}", "", round(_TOP + _LINES * (1 - at / most), 1)) for at in range(0, most + 1, tick)
        ),
        days=tuple(_days(life, spans)),
        rows=tuple(_row(life, at, one, spans, now) for at, one in placed),
        ceiling=_COST - _BAR if scale == allowed and dearest else None,
        cost=_cost(life),
    )


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%"


def _bands(life: Life, placed: Sequence[tuple[int, Span]], spans: int) -> Iterator[Band]:
    """Yield the areas from below to above, each with an edge at every span where lines changed."""
    edges = [(0, life.before), *((at, one.lines) for at, one in placed)]
    below = [0] * len(edges)
    for place, section in enumerate(_STACKED):
        above = [low + lines.get(section.value, 0) for low, (_, lines) in zip(below, edges, strict=True)]
        if above != below:
            yield Band(section.value, place, _area([at for at, _ in edges], below, above, spans))
        below = above


def _area(places: Sequence[int], below: Sequence[int], above: Sequence[int], spans: int) -> str:
    """Return the path between two stairs; upwards is negative."""
    ends = [*places[1:], spans]
    there = "".join(f"V{-high}H{end}" for high, end in zip(above, ends, strict=True))
    back = "".join(f"V{-low}H{at}" for low, at in zip(reversed(below), reversed(places), strict=True))
    return f"M0,{-below[0]}{there}{back}Z"


def _shapes(placed: Sequence[tuple[int, Span]], spans: int, scale: float) -> Iterator[Shape]:
    """Yield the bars and marks of each span."""
    most = max((max(one.learnt, one.changed + one.put_away + one.closed) for _, one in placed), default=0)
    for at, one in placed:
        x, width = _percent(at + 0.2, spans), _percent(0.6, spans)
        down = _LEARNT + 1.0
        for kind, count in (("learnt", one.learnt), ("changed", one.changed), ("left", one.put_away + one.closed)):
            if count:
                height = _high(count, most)
                yield Shape(kind, x, _LEARNT - height if kind == "learnt" else down, width, height)
                down += 0 if kind == "learnt" else height
        if one.usd and scale:
            height = _high(one.usd, scale)
            yield Shape("cost", x, _COST - height, width, height)
        yield from [Shape("failed", _percent(at + 0.3, spans), _MARKS)] if one.failed else []
        yield from [Shape("yours", _percent(at + 0.7, spans), _MARKS)] if one.yours else []


def _high(value: float, most: float) -> float:
    return round(_BAR * max(_LIGHT, min(1.0, value / most)), 1)


def _days(life: Life, spans: int) -> Iterator[Shape]:
    """Yield a few days, or hours of one, below their spans."""
    every = -(-spans // _DAYS)
    for at in range(0, spans, every):
        day = life.start + timedelta(hours=life.hours * at, minutes=90 if life.hours > 1 else 0)  # clocks change
        text = f"{day:%H:%M}" if life.hours == 1 else f"{day:%b} {day.year}" if spans > 60 else f"{day.day} {day:%b}"
        yield Shape(text, _percent(at, spans), _COST + 14)


def _cost(life: Life) -> str:
    spent, day, dream = map(dollars, (sum(one.usd for one in life.spans), life.usd_per_day, life.usd_per_dream))
    return f"It cost {spent} in all; it may cost {day} a day and {dream} a dream."


def _row(life: Life, at: int, one: Span, spans: int, now: datetime) -> Row:
    when = f"{local_day(one.at, now)}, {one.at:%H:%M}" if life.hours == 1 else local_day(one.at, now)
    day, last = one.at.date(), one.at.date() + timedelta(days=max(life.hours // 24, 1) - 1)
    list_of = {"days": life.days, "day": day, **({"last": last} if last > day else {})}
    counts = (
        (one.learnt, "learnt {:,}"), (one.changed, "changed {:,}"), (one.put_away, "put away {:,}"),
        (one.closed, "answered or deleted {:,}"), (one.failed, "failed {:,}"), (one.yours, "yours {:,}"),
    )  # fmt: skip
    told = ", ".join(words.format(count) for count, words in counts if count) or "nothing new"
    return Row(
        when=f"Week of {when}" if life.hours > 24 else when,
        told=f"{told}; {counted(one.total, 'line')}",
        address=f"dream?{urlencode({'dream': one.dream[:100]})}" if one.dream else f"dreams?{urlencode(list_of)}",
        x=_percent(at, spans),
        width=_percent(1, spans),
        span=one,
    )
