"""Mutating: bytes that were valid once, changed at random in ways that parsers trip over."""

import random
from collections.abc import Sequence

MOST_BYTES = 256 * 1024
_SIGNS = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x80\xa8", b"\r",
    b"\r\n", b"\n\n", b"\x0b", b"\x1c", b"\x85", b"\t", b"```\n", b"~~~~", b"<!--", b"-->", b"## The Bond\n",
    b"- ", b"> ", b"# ", b"\xf0\x9f\x93\x8c", b"\\ud800", b"\\u0000", b"[" * 500, b"{" * 500, b'{"a":' * 300,
    b"]" * 500, b'"', b"\\", b"null", b"NaN", b"-1", b"1e999", b"9" * 400, b"0" * 40, b"9999-99-99T99:99:99Z",
    b"-0001-01-01", b"[importance: nan]", b"& * ! %YAML", b"!!python/object:os.system", b"*a", b"&a [*a, *a]",
    b"../../", b"/etc/passwd", b"/dev/zero", b"~root", b"**/", b"search: `", "→".encode(), "é".encode() * 50,
    b"\xcc\x81" * 300, b"a" * 5_000, b" " * 5_000, b"(" * 800, b"<" * 2_000, b"&amp;" * 200, b"PK\x03\x04",
    b"PK\x05\x06", b"SQLite format 3\x00", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00",
)  # fmt: skip


def mutated(chance: random.Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples with up to eight changes."""
    content = bytearray(chance.choice(samples))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(content) + 1)
        end = min(len(content), at + chance.choice((1, 4, 16, 100, 4_096)))
        change = chance.randrange(9)
        if change == 0 and content:
            content[min(at, len(content) - 1)] ^= 1 << chance.randrange(8)
        elif change == 1:
            content[at:end] = chance.randbytes(end - at)
        elif change == 2:
            del content[at:end]
        elif change == 3:
            content[at:at] = chance.choice(_SIGNS)
        elif change == 4:
            content[at:end] = chance.choice(_SIGNS)
        elif change == 5:
            content[at:at] = content[at:end] * chance.choice((1, 2, 50, 2_000))
        elif change == 6:
            other = chance.choice(samples)
            content[at:] = other[chance.randrange(len(other) + 1) :]
        elif change == 7:
            del content[at:]
        else:
            content[at:end] = bytes(reversed(content[at:end]))
        del content[MOST_BYTES:]
    return bytes(content)
