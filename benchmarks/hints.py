"""Write state/injection/hints.json anew: the hints of the patterns by which `defang` knows an instruction.

python -m benchmarks.hints
"""

import json

from state.injection.features import signs
from state.injection.hints import STORED, read_off
from state.injection.patterns import spoken_patterns, written_patterns


def hints() -> dict[str, list[str]]:
    """The hints of each pattern, in order."""
    shown = [one.pattern for one in (*written_patterns(), *spoken_patterns())]
    return {one.pattern: sorted(read_off(one.pattern)) for one in (*shown, *(sign.pattern for sign in signs()))}


def main() -> None:
    STORED.write_text(json.dumps(hints(), ensure_ascii=False, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main()
