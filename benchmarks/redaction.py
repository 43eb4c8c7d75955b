"""Recall and false positives of the redaction, beside detect-secrets alone, on a generated corpus.

    python -m benchmarks.redaction [--seed 1] [--rounds 2] [--lines 4000]

Secrets of every kind are drawn at random and set into sentences, code, settings, JSON, YAML, shell and addresses.
A secret is found when neither it nor half of it is left in the text. Lines without secrets are generated as well:
prose, code, logs, hashes, UUIDs, digests, data addresses, placeholders; a false positive is a line that is changed.
Nothing here is anyone's text or key. Also prints the time for hostile lines of a megabyte.
"""

import argparse
import random
import time
from collections import Counter
from contextlib import AbstractContextManager

from benchmarks.redaction_harmless import harmless
from benchmarks.redaction_wild import cases, is_left
from state.secrets.redaction import redact


def alone(line: str) -> bool:
    """Whether detect-secrets finds anything in a line (it gives some secrets by their prefix only)."""
    from detect_secrets.core.scan import scan_line

    return any(any(scan_line(part)) for part in line.split("\n"))


def without_entropy() -> AbstractContextManager[object]:
    """detect-secrets with all plugins but the two of entropy, which take every hash (and here 95 % of all lines)."""
    from detect_secrets.settings import default_settings, transient_settings

    with default_settings() as settings:
        plugins = [name for name in settings.plugins if "Entropy" not in name]
    return transient_settings({"plugins_used": [{"name": name} for name in plugins]})


def recall(rng: random.Random, rounds: int) -> None:
    drawn, ours, theirs, around = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    with without_entropy():
        for case in cases(rng, rounds):
            missed = is_left(case, redact(case.text).text)
            drawn[case.kind] += 1
            ours[case.kind] += not missed
            theirs[case.kind] += alone(case.text)
            around[case.surroundings] += missed
            if missed:
                print("   missed:", repr(case.text[:150]))
    print(f"{'kind':28} {'n':>5} {'detect-secrets':>15} {'redact':>8}")
    for kind, n in drawn.items():
        print(f"{kind:28} {n:5} {theirs[kind] / n:15.1%} {ours[kind] / n:8.1%}")
    n = drawn.total()
    print(f"{'all ' + str(len(drawn)) + ' kinds':28} {n:5} {theirs.total() / n:15.2%} {ours.total() / n:8.2%}")
    print("missed by surroundings:", dict(around))


def false_positives(rng: random.Random, lines: int) -> None:
    corpus = [harmless(rng) for _ in range(lines)]
    wrong = [line for line in corpus if redact(line).found]
    with without_entropy():
        theirs = sum(map(alone, corpus))
    for line in sorted(set(wrong))[:20]:
        print("   changed:", redact(line).text[:150])
    print(
        f"false positives: {len(wrong)} of {lines} lines ({len(wrong) / lines:.2%});"
        f" detect-secrets {theirs / lines:.2%}"
    )


def speed(rng: random.Random) -> None:
    text = "\n".join(harmless(rng) for _ in range(15_000))[:1_000_000]
    started = time.perf_counter()
    redact(text)
    print(f"{len(text) / 1e6:.1f} MB of lines: {time.perf_counter() - started:.2f} s")
    worst = (0.0, "")
    units = [
        "a",
        "eyJ",
        "password=",
        "//",
        "password  ",
        "sk-",
        "glpat-.",
        "token for ",
        "-----BEGIN PRIVATE KEY-----",
    ]
    units += [
        "a://b:",
        "://a:b@",
        "curl ",
        "cookie:a=",
        "authorization=",
        "seed phrase is ab ",
        "\\n",
        "sk- ghp_ pin ",
    ]
    for unit in units:
        line = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
        started = time.perf_counter()
        redact(line)
        worst = max(worst, (time.perf_counter() - started, unit))
    print(f"worst hostile line of 1 MB: {worst[0]:.2f} s ({worst[1]!r} repeated)")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2, help="how often every kind stands in every surroundings")
    parser.add_argument("--lines", type=int, default=4000, help="lines without secrets")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    recall(rng, given.rounds)
    false_positives(rng, given.lines)
    speed(rng)


if __name__ == "__main__":
    main()
