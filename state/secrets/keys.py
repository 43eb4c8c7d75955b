"""Private keys: whole and truncated blocks, also inside JSON or as base64, and PuTTY's files."""

import re
from collections.abc import Iterator

from state.text.patterns import late_pattern

_HEAD = late_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d|Private-Lines: \d"
    r"|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
)
_END = late_pattern(
    r"(?P<end>-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-(?:MAC|Hash): {0,4}[0-9a-f]{0,128}"
    r"|---- END SSH2 ENCRYPTED PRIVATE KEY ----)|-----BEGIN "
)
# What follows a header whose end is missing: header lines and base64, with real newlines or JSON's escaped ones.
_BODY = late_pattern(
    r"(?:(?:\s|\\{1,3}[nr]"
    r"|[>+|]{1,2} )++(?:[A-Z][\w-]{1,30}: [^\n\\]{0,200}+|[A-Za-z0-9+/=]{16,}+))++"
    r"(?:(?:\s|\\{1,3}[nr])++[A-Za-z0-9+/=]{2,15}(?![\w.]))?"
)
_MATERIAL = late_pattern(r"[A-Za-z0-9+/=]{32}")
_CHARACTERS = 16 * 1024
# The end of a block whose header is missing; the lines of base64 before it are searched backwards.
_LAST = late_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# In base64: -----BEGIN …, openssh-key-v1, and the beginning of DER for usual sizes of RSA, EC and Ed25519 keys.
_ENCODED = late_pattern(
    r"(?<![A-Za-z0-9+/])(?:LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]{40,}|b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=_-]{40,}"
    r"|MII[A-Za-z0-9+/]{2}[A-Za-z0-9+/]IBAA[KS][A-Za-z0-9+/=]{40,}|MII[A-Za-z0-9+/]{2}(?:AIBADANBgkqhkiG9w0BAQEFAASC|wIBADANBgkqhkiG9w0BAQEFAASC|QIBADANBgkqhkiG9w0BAQEFAASC|gIBADANBgkqhkiG9w0BAQEFAASC)[A-Za-z0-9+/=]{40,}"
    r"|MIG[A-Za-z0-9+/]AgEAMB[A-Za-z0-9+/=]{60,}|MC4CAQAwBQYDK2VwBCIEI[A-Za-z0-9+/=]{30,}|MHcCAQEEI[A-Za-z0-9+/=]{60,})"
    r"(?:(?:\s{1,4}|\\n)[A-Za-z0-9+/=]{20,80})*"
)
_PUBLIC = (
    "LS0tLS1CRUdJTiBDRVJU",
    "LS0tLS1CRUdJTiBQVUJM",
    "LS0tLS1CRUdJTiBTU0gyIFBV",
    "LS0tLS1CRUdJTiBQR1AgUFVC",
    "LS0tLS1CRUdJTiBSU0EgUFVC",
    "LS0tLS1CRUdJTiBQR1AgU0lH",
    "LS0tLS1CRUdJTiBQR1AgTUVT",
    "LS0tLS1CRUdJTiBQS0NT",
)


def private_keys(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each private key or part of one."""
    if "-----BEGIN" in text or "PuTTY-User" in text or "Private-Lines" in text or "---- BEGIN" in text:
        yield from _blocks(text)
    if "PRIVATE KEY" in text and "-----END" in text:
        yield from _tails(text)
    for match in _ENCODED.finditer(text):
        if not match[0].startswith(_PUBLIC):
            yield "private key", match.start(), match.end()


def _blocks(text: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    while head := _HEAD.search(text, at):
        at = head.end()
        end = _END.search(text, at, at + _CHARACTERS)
        body = None if end and end["end"] else _BODY.match(text, at)
        stop = end.end() if end and end["end"] else body.end() if body else at
        # A header that is only mentioned is not followed by a key.
        if _MATERIAL.search(text, at, stop):
            yield "private key", head.start(), stop
            at = stop


def _tails(text: str) -> Iterator[tuple[str, int, int]]:
    done = 0
    for last in _LAST.finditer(text):
        start = last.start()
        floor = max(done, start - _CHARACTERS)
        done = last.end()
        head = text.rfind("-----BEGIN", floor, start)
        if head >= 0 and _HEAD.match(text, head):
            continue
        first = start
        for line in reversed(list(re.finditer(r"[A-Za-z0-9+/=]{2,}|[^A-Za-z0-9+/=\s\\>+|-]", text[floor:start]))):
            if not re.fullmatch(r"[A-Za-z0-9+/=]{2,}", line[0]) or (
                len(line[0]) < 16 and first != start and "=" not in line[0]
            ):
                break
            first = floor + line.start()
        if _MATERIAL.search(text, first, start):
            yield "private key", first, last.end()
