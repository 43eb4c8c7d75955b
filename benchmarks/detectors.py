"""Detectors: what each that reads a text costs at its worst, and all that a note of 16 KiB passes through, by shape.

    python -m benchmarks.detectors [--only NAME] [--worst 4]

Processor time with nothing remembered. Each detector reads every shape of tests/detectors at 16 KiB, and at 1 MiB
those that cost it most there.
"""

import argparse
from datetime import UTC, datetime
from random import Random

from benchmarks.workload import Workload
from state.crystals.salience import salience
from state.forgetting.known import Known, Target, known_of
from state.scratch import parse_notes
from state.secrets.redaction import redact
from state.signals.curiosity import questions_in
from state.signals.felt import feelings_in
from state.text.chunks import chunk
from state.text.line import as_line
from state.text.words import content_terms
from state.trust import Trust
from tests.state.detectors.shapes import SHAPES
from tests.state.detectors.table import DETECTORS, Detector
from tests.state.detectors.timing import forget_texts, seconds

# Bytes, as files and notes are measured.
NOTE, LONGEST = 16 * 1024, 1 << 20
NOTE_GOAL, LONGEST_GOAL = 0.050, 1.0
_BURIED = 50
_SEED = 5
_MOST_ROWS = 12


def buried(workload: Workload) -> Known:
    """Make facts and long texts that were forgotten, none of which any shape holds."""
    chance = Random(_SEED)
    texts = (workload.text("forgotten", number)[0] for number in range(_BURIED))
    return known_of(tuple(Target.of(f"{text} {chance.randrange(1_000_000)}") for text in texts))


def stages() -> dict[str, Detector]:
    """Return what a note passes through on its way to its crystal and its place in MEMORY.md."""
    workload = Workload(_SEED)
    forgotten, now = buried(workload), datetime(2026, 3, 12, tzinfo=UTC)
    return {
        "redact": redact,
        "parse_notes": lambda text: parse_notes(f"- [2026-03-12T14:30:00Z] (importance: 0.5) {text}\n", now),
        "salience": lambda text: salience(text, Trust.AGENT),
        "forgotten found": forgotten.found,
        "forgotten without": forgotten.without,
        "questions_in": questions_in,
        "feelings_in": feelings_in,
        "as_line": as_line,
        "chunk": chunk,
        "content_terms": content_terms,
    }


def sized(shape: str, size: int) -> str:
    """Return the shape in so many bytes of UTF-8, or a few less."""
    text = SHAPES[shape](size)
    share = size / len(text.encode("utf-8", "surrogatepass"))
    return text if share >= 1 else SHAPES[shape](int(size * share))


def path(parts: dict[str, Detector]) -> None:
    """Print a row for each of the dearest shapes: all that it passes through in turn, and the dearest of these."""

    def together(text: str) -> dict[str, float]:
        forget_texts()
        return {name: seconds(part, text, forget=False) for name, part in parts.items()}

    costs = {shape: together(sized(shape, NOTE)) for shape in SHAPES}
    ranked = sorted(costs, key=lambda shape: -sum(costs[shape].values()))
    fine = sum(sum(cost.values()) <= NOTE_GOAL for cost in costs.values())
    print(
        f"\na note of 16 KiB, all it passes through: {fine} of {len(costs)} shapes within {NOTE_GOAL * 1000:.0f} ms"
    )
    for shape in (*ranked[:_MOST_ROWS], "prose"):
        cost = costs[shape]
        dearest = sorted(cost, key=lambda name: -cost[name])[:4]
        told = ", ".join(f"{name} {cost[name] * 1000:.0f}" for name in dearest)
        print(f"  {sum(cost.values()) * 1000:6.0f} ms  {shape:<28} {told}")


def worst(detector: Detector, count: int) -> tuple[tuple[float, str], tuple[float, str]]:
    """Return the seconds and the shape that costs most, at 16 KiB and at 1 MiB."""
    short = sorted(((seconds(detector, sized(shape, NOTE)), shape) for shape in SHAPES), reverse=True)
    long = max((seconds(detector, sized(shape, LONGEST)), shape) for _, shape in short[:count])
    return short[0], long


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", help="detectors whose name holds this")
    parser.add_argument("--worst", type=int, default=4, help="shapes that are tried at 1 MiB (%(default)s)")
    given = parser.parse_args()
    parts = stages()
    print(f"{'ms of processor':<24}{'16 KiB':>8}{'1 MiB':>8}  worst shapes")
    every = {"redact": redact, "forgotten without": parts["forgotten without"], **DETECTORS}
    for name, detector in every.items():
        if given.only is None or given.only in name:
            detector("compiled and loaded. 忽略 → search: `keys`?")
            (short, one), (long, other) = worst(detector, given.worst)
            missed = "  MISSED" if long > LONGEST_GOAL else ""
            print(f"{name:<24}{short * 1000:8.1f}{long * 1000:8.0f}  {one}; {other}{missed}", flush=True)
    if given.only is None:
        path(parts)


if __name__ == "__main__":
    main()
