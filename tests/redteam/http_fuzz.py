"""HTTP fuzz: a real server is asked what nobody should ask, and all that its own OpenAPI document allows.

Every answer comes soon, and is JSON of the shape that the document says. 5xx is a failure: one client alone overloads
nobody.
"""

import json
import logging
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.table import OPERATIONS
from daemon.api.workers import Limits
from daemon.http.openapi import document
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Running, running

# Not positive_data_acceptance: what a request means is more than its schema says (a version that is not there, a note
# of spaces, one of two fields too many).
CHECKS = (
    "not_a_server_error status_code_conformance content_type_conformance response_headers_conformance"
    " response_schema_conformance negative_data_rejection missing_required_header unsupported_method"
    " allow_header_conformance ignored_auth"
).split()
LIMITS = Limits(head_seconds=1.0, body_seconds=1.0, keep_alive_seconds=1)
_SOON_SECONDS = 30.0
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW", "get", "")
_LITERALS = (
    "null", "true", "0", "-1", "1.5", "-0.0", "1e999", "NaN", "-Infinity", "1e-400", "9" * 30, "-" + "9" * 5_000,
    '""', '" "', '"5"', '"1e3"', r'"\u0000"', r'"a\u0000b"', r'"\ud800"', r'"\udc00\ud800"', r'"\ud83d\ude00"',
    r'"\u202e\u200b\ufeff"', '"../../etc/passwd"', '"/dev/zero"', "\"'; DROP TABLE crystals; --\"", '"${jndi:x}"',
    '"%00%ff"', '"' + "x" * 70_000 + '"', "[]", "{}", "[null]", '{"a": {"b": []}}', "[" * 2_000 + "]" * 2_000,
    '["a", 1, null]', '"2026-13-45T99:99:99Z"', '"NOT NEAR AND * \\" OR ("', '"l1"', '"0' + "0" * 31 + '"',
    "'single'", "undefined", "0x10", "01", "+1", ".5", '"unfinished',
)  # fmt: skip
_NAMES = ("..", "a" * 5_000, "", " ", *"%2e%2e %00 %ff %F0%9F%A6%85 a/b A-000000 %2F * nobody-000000".split())
_TYPES = (
    "application/json", "application/json; charset=utf-16", "APPLICATION/JSON", "text/plain", "text/json", "",
    "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml",
    "application/json, text/html", "\xff\xfe", "application/jsonx", "application/x-ndjson",
)  # fmt: skip
_HEADERS = (
    b"Accept: application/x-ndjson", b"Accept: */*;q=0", b"Accept: \xff", b"Content-Encoding: gzip",
    b"Expect: 100-continue", b"Origin: http://evil.example", b"Dreamd-Workspace: /%00",
    b"X-Long: " + b"x" * 60_000, b"Connection: upgrade", b"Upgrade: websocket", b"Range: bytes=0-1",
    b"Cookie: a=b", b"Authorization: Basic Og==", b"Host: evil.example", b"Content-Length: 7",
    b"Content-Length: -1", b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"No colon",
    b"X-HTTP-Method-Override: DELETE", b"Content-Type: text/plain",
)  # fmt: skip


@dataclass(slots=True)
class Tried:
    """What was asked, by the status that was answered, and what went wrong."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def hostile(server: Running, name: str, seed: int, *, seconds: float, count: int = sys.maxsize) -> Tried:
    """Ask so many requests that nobody should ask, or for so long; it ends at the first failure."""
    chance, tried, began = random.Random(seed), Tried(), time.monotonic()
    while sum(tried.statuses.values()) < count and time.monotonic() - began < seconds and not tried.failures:
        operation = chance.choice(list(OPERATIONS.values()))
        said, is_plain = _request(chance, operation, name)
        asked = time.monotonic()
        heard = _heard(server, said)
        took = time.monotonic() - asked
        status = int(heard.split(b" ", 2)[1]) if heard.startswith(b"HTTP/1.1 ") else 0
        tried.statuses[status] += 1
        if wrong := _wrong(heard, status, took, local=is_plain and not operation.remote):
            tried.failures.append(f"{wrong}\nasked: {said[:2_000]!r}\nheard: {heard[:2_000]!r}")
    return tried


def by_document(server: Running, name: str, seed: int, options: Sequence[str]) -> str:
    """Have schemathesis ask what the server's document allows and what it forbids; what it found, "" for nothing."""
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder) / "schemathesis.toml"
        configuration.write_text(f'[parameters]\n"path.workspace" = "{name}"\n')
        url = f"http://127.0.0.1:{server.port}/v1/openapi.json"
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run", url]
        checks = ["--header", f"Authorization: Bearer {TOKEN}", "--checks", ",".join(CHECKS), "--continue-on-failure"]
        extent = ["--phases", "coverage,fuzzing", "--seed", str(seed), "--generation-database", "none", "--no-color"]
        run = subprocess.run(
            [*command, *checks, *extent, *options], capture_output=True, text=True, cwd=folder, check=False
        )
    paths = document(is_local=False)["paths"]
    del paths["/v1/openapi.json"]  # where it has the document from it does not ask again
    operations = sum(len({"get", "post", "delete"} & path.keys()) for path in paths.values())
    sound = run.returncode == 0 and f"Tested: {operations}" in run.stdout
    return "" if sound else run.stdout + run.stderr


def lived_in(server: Running, folder: Path) -> str:
    """A workspace in which something is remembered; its name."""
    name = server.house.make(folder / "memory")
    there = f"/v1/workspaces/{name}"
    for note in ("the heron fishes at dawn", "we keep the ledger in SQLite"):
        assert server.ask("POST", f"{there}/working_memory_note", {"note": note, "importance": 0.9}).status == 200
    assert server.ask("POST", f"{there}/dream_now", {}).status == 200
    return name


def fuzz(seconds: float, seed: int) -> str:
    """Ask what nobody should ask, then what the document allows, half of the time each; what was found."""
    logging.getLogger("uvicorn.error").disabled = True  # it complains of each
    half = max(1.0, seconds / 2)
    with tempfile.TemporaryDirectory() as folder, running(OwnHouse(), LIMITS) as server:
        name = lived_in(server, Path(folder))
        tried = hostile(server, name, seed, seconds=half)
        print(f"{tried.statuses.total():,} requests, by status {dict(sorted(tried.statuses.items()))}", flush=True)
        return "\n".join(tried.failures) or by_document(server, name, seed, ["--max-time", str(int(half))])


def _heard(server: Running, said: bytes) -> bytes:
    """All that is answered until the connection ends; what is refused early may be reset."""
    heard = b""
    with server.connected_to_port() as connection, suppress(ConnectionError):
        connection.sendall(said)
        while block := connection.recv(65_536):
            heard += block
    return heard.removeprefix(b"HTTP/1.1 100 \r\n\r\n")


def _wrong(heard: bytes, status: int, took: float, *, local: bool) -> str:
    """What is wrong with this answer, which came after so many seconds."""
    if took > _SOON_SECONDS:
        return f"answered after {took:.0f} s"
    if status == 0:
        # A request that never ends is cut off.
        return "" if heard == b"" else "no answer of HTTP's"
    if status >= 500:
        return f"status {status}"
    head, _, body = heard.partition(b"\r\n\r\n")
    if local and status not in (403, 413):
        return f"status {status} for what is not answered at the port"
    is_error = b"application/json" in head and body and status >= 400
    if is_error and set(json.loads(body)) != {"error", "code", "details"}:
        return "an error of another shape"
    return ""


def _request(chance: random.Random, operation: AnyOperation, name: str) -> tuple[bytes, bool]:
    """A whole request as bytes, and whether only its fields are hostile: then its status is documented."""
    method = chance.choice(("GET", "POST")) if operation.reads else "POST"
    by_query = method == "GET"
    there, headers, kind = name, list[bytes](), "application/json"
    is_plain = chance.random() < 0.6
    if not is_plain:
        method = chance.choice((method, chance.choice(_METHODS)))
        there = chance.choice((there, chance.choice(_NAMES)))
        kind = chance.choice((kind, chance.choice(_TYPES)))
        headers = chance.sample(_HEADERS, chance.choice((0, 1, 1, 2)))
    fields = _fields(chance, operation)
    query, body = "", b""
    if by_query:
        query = _query(chance, fields)
    else:
        body = _body(chance, fields, is_plain=is_plain)
    target = f"/v1/workspaces/{there}/{operation.name}{f'?{query}' if query else ''}"
    head = [
        f"{method} {target} HTTP/1.1".encode("latin-1", "replace"),
        b"Host: 127.0.0.1",
        f"Authorization: Bearer {TOKEN}".encode(),
        b"Content-Type: " + kind.encode("latin-1"),
        b"Connection: close",
        *headers,
    ]
    if body or not by_query:
        length = len(body) if is_plain or chance.random() < 0.8 else chance.choice((0, len(body) + 5, 2**40))
        head.append(f"Content-Length: {length}".encode())
    return b"\r\n".join(head) + b"\r\n\r\n" + body, is_plain


def _fields(chance: random.Random, operation: AnyOperation) -> list[tuple[str, str]]:
    """Names and JSON of an operation's fields: some as they should be, some not, some twice, some unknown."""
    schema = operation.request.model_json_schema()
    found: list[tuple[str, str]] = []
    for name, told in schema.get("properties", {}).items():
        draw = chance.random()
        if draw < 0.45 or (draw < 0.8 and name in schema.get("required", ())):
            found.append((name, json.dumps(_sample(chance, told, schema.get("$defs", {})))))
        elif draw < 0.7:
            found.append((name, chance.choice(_LITERALS)))
    if found and chance.random() < 0.1:
        found.append((chance.choice(found)[0], chance.choice(_LITERALS)))
    if chance.random() < 0.1:
        found.append(
            (chance.choice(("", "colour", "__proto__", "\x00", "a" * 3_000, "\ud83e")), chance.choice(_LITERALS))
        )
    chance.shuffle(found)
    return found


def _sample(chance: random.Random, told: dict[str, Any], named: dict[str, Any]) -> Any:
    """A value of this schema, more or less."""
    if "$ref" in told:
        return _sample(chance, named.get(told["$ref"].rpartition("/")[2], {}), named)
    if "anyOf" in told:
        return _sample(chance, chance.choice(told["anyOf"]), named)
    if "enum" in told:
        return chance.choice(told["enum"])
    if "const" in told:
        return told["const"]
    if told.get("type") == "array":
        return [_sample(chance, told.get("items", {}), named) for _ in range(chance.choice((0, 1, 3)))]
    words = ("heron", "the ledger is SQLite", "Grüße 🍵", "a" * 200, "L1", "s", "1h", "*", 'a "b" (c)', "\u2028")
    samples: dict[str, Any] = {
        "string": chance.choice(words),
        "integer": chance.choice((0, 1, 2, 10, 10**6, 2**63, -(2**63) - 1)),
        "number": chance.choice((0, 0.5, 1, 1e9)),
        "boolean": chance.random() < 0.5,
        "object": {chance.choice(words): chance.choice(words)},
    }
    kind = told.get("type", "")
    return samples.get(chance.choice(kind) if isinstance(kind, list) else kind)


def _query(chance: random.Random, fields: list[tuple[str, str]]) -> str:
    texts = [(name, value.removeprefix('"').removesuffix('"')) for name, value in fields]
    said = "&".join(
        f"{quote(name, errors='replace')}={quote(value[:20_000], errors='replace')}" for name, value in texts
    )
    spoilt = ("%", "%zz", "%ff%fe", "%00", "=&=&", "a=1&" * 200, "+", ";", "%ed%a0%80", "q[]=1", "?" * 50)
    return said + chance.choice(spoilt) if chance.random() < 0.15 else said


def _body(chance: random.Random, fields: list[tuple[str, str]], *, is_plain: bool) -> bytes:
    said = "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in fields) + "}"
    body = said.encode("utf-8", "replace")
    if is_plain:
        return body
    at = chance.randrange(len(body))
    spoilt = body[:at] + bytes((chance.randrange(256),)) + body[at + 1 :]
    others = [body, body[:at], spoilt, b"\xef\xbb\xbf" + body, said.encode("utf-16"), body + body, b"[" * 50_000]
    return chance.choice([*others, b'{"a":' * 50_000, b"", b"\x00" * 10, b"x" * (LIMITS.body_bytes + 1)])
