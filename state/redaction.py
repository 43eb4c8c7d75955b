"""Secrets are replaced by `[redacted: kind]` before a text reaches a model, a crystal or MEMORY.md.

detect-secrets knows many shapes; secret_shapes.py adds what it lacks; secret_names.py finds what is assigned to a
name such as `password`; here are private key blocks and passwords in addresses. Entropy alone is no sign of a secret:
hashes, UUIDs and pictures stay.
"""

import functools
import importlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from state.secret_names import MARK, looks_random, named_secrets
from state.secret_phrases import PHRASES, recovery_codes
from state.secret_shapes import SHAPES, Shape, is_placeholder

# detect-secrets' plugins that are used, each with plain hints (see secret_shapes.py) and the kind as it is shown.
# Not used, since the rules here find more of the same: JwtTokenDetector (leaves the signature), PrivateKeyDetector
# (finds the head of a block alone), BasicAuthDetector (stops at "/" in a password), KeywordDetector (one find a line,
# quotes required), TelegramBotTokenDetector (a time stamp before a hash is one), ArtifactoryDetector (APACHESERVER is
# one), NpmDetector, OpenAIDetector, SoftlayerDetector, CloudantDetector and Ibm*Detector (more than linear on hostile
# lines), and the plugins of entropy (hashes).
_PLUGINS = (
    ("aws", "AWSKeyDetector", ("akia", "asia", "abia", "acca", "a3t", "aws"), "aws key"),
    ("azure_storage_key", "AzureStorageKeyDetector", ("accountkey=",), "azure storage key"),
    ("discord", "DiscordBotTokenDetector", (".",), "discord token"),
    ("github_token", "GitHubTokenDetector", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), "github token"),
    ("gitlab_token", "GitLabTokenDetector", ("gl", "gr1348941"), "gitlab token"),
    ("mailchimp", "MailchimpDetector", ("-us",), "mailchimp key"),
    ("pypi_token", "PypiTokenDetector", ("pypi-",), "pypi token"),
    ("sendgrid", "SendGridDetector", ("sg.",), "sendgrid key"),
    ("slack", "SlackDetector", ("xox", "hooks.slack.com"), "slack token"),
    ("square_oauth", "SquareOAuthDetector", ("sq0csp-",), "square token"),
    ("stripe", "StripeDetector", ("k_live_",), "stripe key"),
    ("twilio", "TwilioKeyDetector", ("ac", "sk"), "twilio key"),
)

_KEY_HEAD = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d")
_KEY_END = re.compile(
    r"(?P<end>-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-MAC: {0,4}[0-9a-f]{0,128})|-----BEGIN "
)
# What follows a head whose end is missing: header lines and base64, with line ends of a file or escaped ones of JSON.
_KEY_BODY = re.compile(
    r"(?:(?:\s|\\[nr])+(?:[A-Z][\w-]{1,30}: [^\n]{0,200}|[A-Za-z0-9+/=]{16,}))+(?:\s+[A-Za-z0-9+/=]{2,})?"
)
_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/=]{32}")
_KEY_CHARACTERS = 16 * 1024
_PASSES = 4

_ADDRESS = re.compile(r"://[^\s:/@\"'<>]{0,255}:(?!\d{1,5}(?:[/?#]|$))([^\s\"'<>]{1,512})")
# A token in the place of the user, as in an address of git.
_TOKEN_IN_ADDRESS = re.compile(r"://([\w-]{20,255})@")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]{2,60}\]|[A-Za-z0-9_][\w.:-]{0,255})(?=[:/?#,;)\s\"'`*]|$)")
# The shortest token of a plugin has 16 of these characters, a digit among them; a secret key of AWS may have slashes.
_RUN = re.compile(r"[\w+=-]{16,}")
_LONG_RUN = re.compile(r"[A-Za-z0-9/+=]{40}")
_REST_OF_TOKEN = re.compile(r"[\w-]*")


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret at text[start:end] of the text that was given."""

    kind: str
    start: int
    end: int

    @property
    def mark(self) -> str:
        """What stands in its place."""
        return f"{MARK}{self.kind}]"


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text without its secrets, and where they stood, in order, not overlapping."""

    text: str
    found: tuple[Finding, ...] = ()


def redact(text: str, allow: Sequence[str] = ()) -> Redacted:
    """The text with every secret replaced by `[redacted: kind]`; what stands within a text of `allow` is none.

    Redacting twice is redacting once. Time is linear in the length of the text.
    """
    redacted, found = text, tuple[Finding, ...]()
    # What a secret stood between may be a sentence about another one only once the first is gone.
    for _ in range(_PASSES if len(text) >= 8 else 0):
        more = _findings(redacted, allow)
        if not more:
            break
        found = _apart([*found, *_in_original(found, more)])
        redacted = _replaced(text, found)
    return Redacted(redacted, found)


def _findings(text: str, allow: Sequence[str]) -> list[Finding]:
    lowered = text.lower()
    candidates = chain(
        _private_keys(text),
        _shaped(text, lowered),
        _addresses(text),
        named_secrets(text, lowered),
        recovery_codes(text, lowered),
    )
    found = [Finding(kind, start, end) for kind, start, end in candidates if MARK not in text[start:end]]
    if not (allow and found):
        return found
    allowed = [match.span() for one in allow if one for match in re.finditer(re.escape(one), text)]
    return [one for one in found if not any(start <= one.start and one.end <= end for start, end in allowed)]


def _replaced(text: str, found: Sequence[Finding]) -> str:
    pieces, at = [], 0
    for finding in found:
        pieces += [text[at : finding.start], finding.mark]
        at = finding.end
    return "".join([*pieces, text[at:]])


def _in_original(found: Sequence[Finding], more: Sequence[Finding]) -> Iterator[Finding]:
    """The findings of a later pass at their places in the original text, of which `found` was replaced before."""
    shifts, shift = [0], 0
    ends = []  # of the marks, in the text of the later pass
    for one in found:
        shift += len(one.mark) - (one.end - one.start)
        ends.append(one.end + shift)
        shifts.append(shift)
    for one in more:
        moved = shifts[bisect_right(ends, one.start)]
        yield Finding(one.kind, one.start - moved, one.end - moved)


def _apart(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Overlapping findings become one, of the kind of the one that begins first (of the longest, if several do)."""
    apart: list[Finding] = []
    for finding in sorted(found, key=lambda one: (one.start, -one.end)):
        if apart and finding.start < apart[-1].end:
            apart[-1] = Finding(apart[-1].kind, apart[-1].start, max(apart[-1].end, finding.end))
        else:
            apart.append(finding)
    return tuple(apart)


def _private_keys(text: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    while head := _KEY_HEAD.search(text, at):
        at = head.end()
        end = _KEY_END.search(text, at, at + _KEY_CHARACTERS)
        body = None if end and end["end"] else _KEY_BODY.match(text, at)
        stop = end.end() if end and end["end"] else body.end() if body else at
        # A head that is only spoken of has no key behind it.
        if _KEY_MATERIAL.search(text, at, stop):
            yield "private key", head.start(), stop
            at = stop


def _shaped(text: str, lowered: str) -> Iterator[tuple[str, int, int]]:
    # Most texts hold nothing that detect-secrets could find, and importing it takes 100 ms: a session start waits.
    for shape in chain(SHAPES, PHRASES, _theirs() if _holds_token(text, lowered) else ()):
        if not any(hint in lowered for hint in shape.hints):
            continue
        pattern = shape.pattern
        for match in pattern.finditer(text):
            group = "secret" if "secret" in pattern.groupindex else 0
            if pattern.groups == 1 and len(match[1] or "") >= 16:
                group = 1
            start, end = match.span(group)
            if group == 0:  # an over-long token goes whole, the full stop of its sentence stays
                rest = _REST_OF_TOKEN.match(text, end)
                end = rest.end() if rest else end
                end -= text[end - 1] == "."
            if not is_placeholder(text[start:end]):
                yield shape.kind, start, end


def _holds_token(text: str, lowered: str) -> bool:
    """Whether there is a run of characters that one of detect-secrets' patterns could match."""
    if "xox" in lowered or "hooks.slack" in lowered or _LONG_RUN.search(text):
        return True
    return any(any(map(str.isdigit, run.group())) for run in _RUN.finditer(text))


@functools.cache
def _theirs() -> tuple[Shape, ...]:
    """What detect-secrets' plugins look for."""
    theirs = []
    for module, name, hints, kind in _PLUGINS:
        plugin = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)
        theirs += [Shape(kind, hints, pattern.pattern, pattern.flags) for pattern in plugin.denylist]
    return tuple(theirs)


def _addresses(text: str) -> Iterator[tuple[str, int, int]]:
    """Passwords in scheme://user:password@host."""
    if "://" not in text:
        return
    for match in _ADDRESS.finditer(text):
        at = match[1].rfind("@")
        while at > 0 and not _HOST.match(text, match.start(1) + at + 1):
            at = match[1].rfind("@", 0, at)
        if at > 0 and not is_placeholder(match[1][:at]):
            yield "password in an address", match.start(1), match.start(1) + at
    for match in _TOKEN_IN_ADDRESS.finditer(text):
        if looks_random(match[1]):
            yield "token in an address", *match.span(1)
