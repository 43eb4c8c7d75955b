"""Recall and false positives of the redaction, beside detect-secrets alone, on a generated corpus.

    python -m benchmarks.redaction [--seed 1] [--each 20] [--lines 4000]

Secrets of every kind are drawn at random and set into sentences, code, settings, JSON, YAML, shell and addresses.
A secret is found when neither it nor half of it is left in the text. Lines without secrets are generated as well:
prose, code, logs, hashes, UUIDs, digests, data addresses, placeholders; a false positive is a line that is changed.
Nothing here is anyone's text or key. Also prints the time for hostile lines of a megabyte.
"""

import argparse
import random
import time
from contextlib import AbstractContextManager

from benchmarks.redaction_corpus import KINDS, harmless
from state.redaction import redact


def left(secret: str, text: str) -> bool:
    """Whether the secret or half of it is still in the text."""
    half = max(6, len(secret) // 2)
    return secret[:half] in text or secret[-half:] in text


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


def recall(rng: random.Random, each: int) -> None:
    total = ours = theirs = 0
    print(f"{'kind':24} {'n':>5} {'detect-secrets':>15} {'redact':>8}")
    with without_entropy():
        for kind, (draw, forms) in KINDS.items():
            found = also = 0
            for number in range(each):
                secret = draw(rng)
                line = forms[number % len(forms)].format(s=secret)
                missed = left(secret, redact(line).text)
                found += not missed
                also += alone(line)
                if missed:
                    print("   missed:", line[:150])
            print(f"{kind:24} {each:5} {also / each:15.1%} {found / each:8.1%}")
            total, ours, theirs = total + each, ours + found, theirs + also
    print(f"{'all ' + str(len(KINDS)) + ' kinds':24} {total:5} {theirs / total:15.2%} {ours / total:8.2%}")


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
    parser.add_argument("--each", type=int, default=20, help="secrets of each kind")
    parser.add_argument("--lines", type=int, default=4000, help="lines without secrets")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    recall(rng, given.each)
    false_positives(rng, given.lines)
    speed(rng)


if __name__ == "__main__":
    main()
