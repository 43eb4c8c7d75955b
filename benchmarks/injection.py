"""The first net: how much poison it names, and how much honest text it leaves alone, by kind.

The corpora are those of the tests, half of them held out: no rule was made for a held-out text. What the net misses
is still quoted when its source is not trusted, and can forge nothing: that is tested, not measured.
"""

import argparse
from collections.abc import Iterable

from state.injection.defang import reads_as_instruction
from tests.support.poison import HONEST, POISONED, Honest, Poisoned, Sort, Trick


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--missed", action="store_true", help="print what the net judged wrongly of the tuning half")
    given = parser.parse_args()
    print(f"poisoned texts named, of {len(POISONED)}{'':<21}   tuning       held out")
    for trick in Trick:
        _row(trick.value, [one for one in POISONED if one.trick is trick])
    _row("all", POISONED)
    print(f"\nhonest texts let through, of {len(HONEST)}{'':<16}   tuning       held out")
    for sort in Sort:
        _row(sort.value, [one for one in HONEST if one.sort is sort])
    _row("all", HONEST)
    if given.missed:
        every: list[Poisoned | Honest] = [*POISONED, *HONEST]
        for one in every:
            if not one.held_out and not _right(one):
                print(f"{_kind(one)}: {one.text!r} {reads_as_instruction(one.text)}")


def _right(one: Poisoned | Honest) -> bool:
    """Of a text in parts it is enough that one of them is named, or the whole."""
    if isinstance(one, Honest):
        return reads_as_instruction(one.text) is None
    return any(reads_as_instruction(text) is not None for text in (*one.parts, one.text))


def _kind(one: Poisoned | Honest) -> str:
    return one.sort.value if isinstance(one, Honest) else one.trick.value


def _row(name: str, texts: Iterable[Poisoned | Honest]) -> None:
    texts = list(texts)
    cells = []
    for half in (False, True):
        rights = [_right(one) for one in texts if one.held_out is half]
        cells.append(f"{sum(rights):>4} of {len(rights):>3} {sum(rights) / max(1, len(rights)):>4.0%}")
    print(f"  {name:<42} {'  '.join(cells)}")


if __name__ == "__main__":
    main()
