"""Recall and false positives of the redaction on the corpora of tests/redteam, by language.

    python -m benchmarks.redaction [--seed 1]

A secret is caught when neither it nor a piece longer than half of it (and than eight characters) is left.
"""

import argparse
from collections import Counter

from state.secrets.redaction import redact
from tests.redteam.corpus import CORPORA, Entry, entries, is_left


def recall(found: list[Entry]) -> None:
    of, missed = Counter[str](), Counter[str]()
    for entry in found:
        of[entry.language] += 1
        missed[entry.language] += is_left(entry, redact(entry.text).text)
    for language, count in sorted(of.items()):
        print(f"{language:8}{count:6}{1 - missed[language] / count:8.1%}")
    print(f"{'all':8}{of.total():6}{1 - missed.total() / of.total():8.1%} caught")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for author in ("a", "b", "c", "d"):
        print(f"author {author}")
        recall(entries(CORPORA / f"secrets_{author}.jsonl", given.seed))
        harmless = entries(CORPORA / f"harmless_{author}.jsonl", given.seed)
        changed = sum(redact(entry.text).text != entry.text for entry in harmless)
        print(f"harmless texts changed: {changed} of {len(harmless)} ({changed / len(harmless):.2%})")


if __name__ == "__main__":
    main()
