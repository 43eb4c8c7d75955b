"""Drawings: small figures as SVG, made of numbers alone: a curve, a bar of shares."""

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT = 120.0, 24.0


def curve(values: Sequence[float], name: str, most: float = 1.0, baseline: float | None = None) -> Markup:
    """Draw a curve of values in [0, most], the oldest at the left; `baseline` is a level line behind it."""
    if not values:
        return Markup("")
    step = _WIDTH / max(1, len(values) - 1)

    def height(value: float) -> str:
        return f"{_HEIGHT - 1 - (_HEIGHT - 2) * min(1.0, max(0.0, value / max(most, 1e-9))):.1f}"

    points = " ".join(f"{place * step:.1f},{height(value)}" for place, value in enumerate(values))
    level_line = Markup('<line class="baseline" x1="0" x2="{}" y1="{}" y2="{}"/>')
    behind = "" if baseline is None else level_line.format(f"{_WIDTH:.0f}", height(baseline), height(baseline))
    return Markup(
        '<svg class="curve {name}" viewBox="0 0 {width:.0f} {height:.0f}" preserveAspectRatio="none" role="img"'
        ' aria-label="{name}: from {first:.2f} to {last:.2f}">{behind}<polyline points="{points}"/></svg>'
    ).format(name=name, width=_WIDTH, height=_HEIGHT, first=values[0], last=values[-1], behind=behind, points=points)


def bar(shares: Sequence[tuple[str, float]], name: str, most: float = 0.0) -> Markup:
    """Draw a bar of parts, each with its label and size, without empty ones. `most` is what would fill the bar."""
    whole = max(most, sum(max(0.0, size) for _, size in shares))
    if whole <= 0:
        return Markup("")
    drawn = Markup('<rect class="part part-{}" x="{:.2f}" y="0" width="{:.2f}" height="8"><title>{}</title></rect>')
    parts, left = list[Markup](), 0.0
    for place, (label, size) in enumerate(shares):
        if size > 0:
            parts.append(drawn.format(place % 8, left, 100.0 * size / whole, label))
            left += 100.0 * size / whole
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="rest" width="100" height="8"/>{}</svg>'
    ).format(name, Markup("").join(parts))


def level(value: float, name: str) -> Markup:
    """Draw how much of the whole it is, in [0, 1]."""
    return bar([(name, min(1.0, value))], name, 1.0)
