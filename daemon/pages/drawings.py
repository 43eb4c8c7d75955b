"""Drawings: small figures as SVG, made of numbers alone: a curve, a bar of shares."""

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT = 120.0, 24.0


def curve(
    values: Sequence[float], name: str, lowest: float = 0.0, highest: float = 1.0, baseline: float | None = None
) -> Markup:
    """Draw a curve of these values, the oldest at the left; `name` is one of our own, for the style and for readers.

    `baseline` is a level line behind it.
    """
    if not values:
        return Markup("")
    span = max(highest - lowest, 1e-9)
    step = _WIDTH / max(1, len(values) - 1)

    def height(value: float) -> str:
        return f"{_HEIGHT - 1 - (_HEIGHT - 2) * min(1.0, max(0.0, (value - lowest) / span)):.1f}"

    points = " ".join(f"{place * step:.1f},{height(value)}" for place, value in enumerate(values))
    behind = Markup("")
    if baseline is not None:
        behind = Markup('<line class="baseline" x1="0" x2="{}" y1="{}" y2="{}"/>').format(
            f"{_WIDTH:.0f}", height(baseline), height(baseline)
        )
    return Markup(
        '<svg class="curve {name}" viewBox="0 0 {width:.0f} {height:.0f}" preserveAspectRatio="none" role="img"'
        ' aria-label="{name}: from {first:.2f} to {last:.2f}">{behind}<polyline points="{points}"/></svg>'
    ).format(name=name, width=_WIDTH, height=_HEIGHT, first=values[0], last=values[-1], behind=behind, points=points)


def bar(shares: Sequence[tuple[str, float]], name: str, most: float = 0.0) -> Markup:
    """Draw a bar of parts, each with its name and size; a part of no size is left out. `most`: what would fill it."""
    whole = max(most, sum(max(0.0, size) for _, size in shares))
    if whole <= 0:
        return Markup("")
    parts, left = list[Markup](), 0.0
    for place, (label, size) in enumerate(shares):
        width = 100.0 * max(0.0, size) / whole
        if width > 0:
            parts.append(
                Markup(
                    '<rect class="part part-{place}" x="{left:.2f}" y="0" width="{width:.2f}" height="8">'
                    "<title>{label}</title></rect>"
                ).format(place=place % 8, left=left, width=width, label=label)
            )
        left += width
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{name}">'
        '<rect class="rest" width="100" height="8"/>{parts}</svg>'
    ).format(name=name, parts=Markup("").join(parts))


def level(value: float, name: str) -> Markup:
    """Draw how much of the whole it is, in [0, 1]."""
    width = 100.0 * min(1.0, max(0.0, value))
    return Markup(
        '<svg class="bar level" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{name}">'
        '<rect class="rest" width="100" height="8"/><rect class="part" width="{width:.2f}" height="8"/></svg>'
    ).format(name=name, width=width)
