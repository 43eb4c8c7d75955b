"""What one tenant sends to see another's: paths, headers, hidden requests, fields. All of it is data."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation
    from tests.redteam.tenancy import Occupant

# {name}: a workspace of the other's; {id}: its number; {theirs}, {mine}: ids of tokens; {own}: a name of both.
_NAMES = (
    "{name} ws-{id} {id} {tenant}/{id} {theirs}~{name} {theirs}~{own} {theirs}%7E{own} {theirs}%257E{own}"
    " {mine}~{name} beryl-corp/{name} beryl-corp.{own} {own}/../{name} {own}/..%2f{name} {own}%2F..%2F{name} ./{name}"
    " /{name} {name}/ {name};x {name}%00 {name}%0a {name}%20 {name}. '%20OR%20'1'='1"
).split()
_OTHERS = (
    "//v1/workspaces/{name}/memory_bootstrap /v1//workspaces/{name}/memory_bootstrap"
    " /v1/workspaces/{name}/memory_bootstrap/ /V1/WORKSPACES/{name}/memory_bootstrap"
    " /v1/workspaces/{own}/memory_bootstrap?workspace={name} /v1/workspaces/{own}/memory_bootstrap?tenant={tenant}"
    " /v1/workspaces/{own}/memory_bootstrap#/../{name} /v1/workspaces/{own}/memory_state?workspace=ws-{id}"
    " /v1/workspaces?after=&tenant={tenant} /v1/workspaces?after={name} /v1/workspaces?after=%00"
    " /v1/workspaces?after='%20OR%201=1-- /v1/status?tenant={tenant} /v1/status/ /v1/workers /v1/login /mcp/{name}"
    " /mcp/{theirs}~{own} /mcp/ws-{id} /mcp//{name} /mcp/{own}/../{name} /mcp /metrics/ /metrics?x /%6detrics"
    " /healthz?{name} /healthz/../v1/workspaces/{name}/memory_bootstrap /w/{name}/today"
    " /static/../../objects/{tenant}/{id} /objects/{tenant}/{id}"
    " http://127.0.0.1/v1/workspaces/{theirs}~{own}/memory_bootstrap"
    " http://127.0.0.1/v1/workspaces/{name}/memory_bootstrap"
    " http://{theirs}@127.0.0.1/v1/workspaces/{name}/memory_bootstrap *"
).split()
PATHS = (
    *(f"/v1/workspaces/{name}/memory_bootstrap" for name in _NAMES),
    *_OTHERS,
    "/v1/workspaces/\xef\xbd\x81cme/memory_bootstrap",
)
# Texts of a tenant who looks for what its host has.
HOSTILE = (
    "/proc/self/environ", "../../../../../../../../proc/self/environ", "~/.config/dreamd/config.yaml",
    "$SECRET_OF_THE_OPERATOR ${HOME} %(home)s {config} {{config}}", "file:///proc/self/environ",
    "@/proc/self/cmdline", "!!python/object/apply:os.getcwd []", "global", "'; SELECT address FROM processes; --",
    "http://127.0.0.1:9/", "x\x00y", "\ud83d", "\u202e" + "a" * 300,
)  # fmt: skip
_WRONG: tuple[Any, ...] = (None, [], {"a": []}, 10**30, -1, 1.5, "NaN", True)
_ME = "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {mine}"
HEADERS = (
    _ME + "\r\nDreamd-Workspace: {folder}/worker-of-all/workspaces/ws-{id}",
    _ME + "\r\nDreamd-Workspace: /{name}\r\nDreamd-Adopt: 1",
    _ME + "\r\nAuthorization: Bearer {mine}",
    _ME + "\r\naUTHORIZATION: Bearer dreamd_{theirs}_" + "0" * 48,
    "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {mine}, Bearer dreamd_{theirs}_" + "0" * 48,
    "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {theirs}~{name}",
    "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer dreamd_{theirs}_",
    "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer\t{mine}",
    "Host: ws-{id}\r\nAuthorization: Bearer {mine}",
    "Host: {name}\r\nAuthorization: Bearer {mine}",
    "Host: localhost\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {mine}",
    _ME + "\r\nX-Forwarded-Host: {name}\r\nX-Forwarded-For: 127.0.0.1",
    _ME + "\r\nX-Forwarded-Prefix: /v1/workspaces/{name}",
    _ME + "\r\nForwarded: for=127.0.0.1;host=ws-{id};proto=https",
    _ME + "\r\nX-Original-URL: /v1/workspaces/{name}/memory_bootstrap",
    _ME + "\r\nX-Rewrite-URL: /v1/workspaces/{theirs}~{name}/memory_bootstrap",
    _ME + "\r\nX-HTTP-Method-Override: DELETE",
    _ME + "\r\nMcp-Session-Id: {theirs}~{name}",
    _ME + "\r\nCookie: dreamd={theirs}",
    _ME + "\r\nX-Tenant: beryl-corp\r\nX-User: {theirs}",
    _ME + "\r\nRange: bytes=0-100000\r\nIf-None-Match: *",
    _ME + "\r\nUpgrade: websocket\r\nConnection: Upgrade",
    _ME + "\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    _ME + "\r\nX: y\r\n Authorization: Bearer {theirs}",
    "Host: 127.0.0.1:{port}\r\nAuthorization : Bearer {mine}",
)
_BEGIN = (
    b"POST /v1/workspaces/plans/memory_search HTTP/1.1\r\nHost: 127.0.0.1:@PORT\r\nAuthorization: Bearer @TOKEN\r\n"
)
_BEGIN += b"Content-Type: application/json\r\n"
SMUGGLED = (
    _BEGIN + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n@HIDDEN",
    _BEGIN + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}@HIDDEN",
    _BEGIN + b"Content-Length: 0\r\nContent-Length: @LENGTH\r\n\r\n@HIDDEN",
    _BEGIN + b"Content-Length: @LENGTH\r\nContent-Length: 0\r\n\r\n@HIDDEN",
    _BEGIN + b"Content-Length: +2\r\n\r\n{}@HIDDEN",
    _BEGIN + b"Content-Length: 0x2\r\n\r\n{}@HIDDEN",
    _BEGIN + b"Content-Length: 2, 2\r\n\r\n{}@HIDDEN",
    _BEGIN + b"Content-Length: -1\r\n\r\n@HIDDEN",
    _BEGIN + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n@HIDDEN",
    _BEGIN + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n@HIDDEN",
    _BEGIN + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n@HIDDEN",
    _BEGIN + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n@HIDDEN",
    _BEGIN + b"X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n@HIDDEN",
    _BEGIN + b"Transfer-Encoding: chunked\r\n\r\n2;x=\n{}\r\n0\r\n\r\n@HIDDEN",
    _BEGIN + b"Transfer-Encoding: chunked\r\n\r\n0000000000000000000000002\r\n{}\r\n0\r\nHost: x\r\n\r\n@HIDDEN",
    _BEGIN + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}@HIDDEN",
    _BEGIN + b"Content-Length: 2\r\n\r\n{}@HIDDEN",
    _BEGIN.replace(b"\r\n", b"\n") + b"Content-Length: 2\n\n{}@HIDDEN",
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:@PORT\r\nContent-Length: @LENGTH\r\n\r\n@HIDDEN",
    b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1:@PORT\r\nConnection: keep-alive\r\n\r\n@HIDDEN",
    b"GET http://x/healthz HTTP/1.1\r\nHost: 127.0.0.1:@PORT\r\n\r\n@HIDDEN",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n@HIDDEN",
)
FILLED: dict[str, Any] = {
    "note": "tea",
    "event": "reward",
    "query": "tea",
    "text": "tea",
    "id": "0" * 32,
    "dream": "20260101T000000000000Z",
    "version": 1,
    "as_of": "2026-01-02",
    "verdict": "decline",
    "changes": [{"action": "delete", "line": "L1", "expected": "x"}],
    "digest": "0" * 64,
    "session_id": "nobodys",
    "content": "tea",
    "priority": "low",
    "memory_id": "0" * 64,
    "memory_ids": ["0" * 64],
    "relation_type": "about",
    "target_element_id": "x",
    "policy": "ttl",
    "config": {},
    "importance": 0.5,
    "instruction": "oldest",
    "scope": "full",
    "prompt": "tea",
    "older": "a",
    "newer": "b",
    "file": "AGENTS.md",
    "agent": "claude",
    "paths": ["/etc/passwd"],
    "files": [],
    "source": "user",
}


def fields_of(operation: "AnyOperation") -> dict[str, Any]:
    """The fields that the operation must have, with something harmless."""
    schema = operation.request.model_json_schema()
    filled = FILLED | ({"changes": ["1.1"]} if operation.name == "undo" else {})
    return {name: filled.get(name, "x") for name in schema.get("required", ())}


def others_fields(operation: "AnyOperation", other: "Occupant") -> Iterator[dict[str, Any]]:
    """Its fields as the other tenant would fill them: ids, sessions, names, canaries."""
    base = fields_of(operation)
    yield base
    names = operation.request.model_json_schema().get("properties", {})
    session = f"session-{other.canary}"
    items = [value for kind, value in other.ids.items() if kind.startswith(("item", "work"))][:2]
    crystals = [value for kind, value in other.ids.items() if kind.startswith(("hit", "crystal"))][-2:]
    for name in ("session_id", "session"):
        if name in names:
            yield {**base, name: session}
            for item in items if "memory_id" in names else ():
                yield {**base, name: session, "memory_id": item}
    for name in ("id", "text", "query", "note", "prompt", "content", "cursor", "dream", "speaker", "because"):
        if name in names:
            for one in (other.canary, *crystals):
                yield {**base, name: one}
    if "memory_ids" in names:
        yield {**base, "session_id": session, "memory_ids": items}
    if "instruction" in names:
        yield {**base, "session_id": session, "instruction": f"id:{items[0]}", "mode": "hard", "confirm": True}
    for version in (1, 2, 999_999_999) if "version" in names or "old" in names else ():
        yield {**base, **({"version": version} if "version" in names else {"old": version, "new": version})}
    yield {**base, "workspace": other.names[1], "tenant": other.tenant.id}


def hostile_fields(schema: dict[str, Any], base: dict[str, Any], files: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Ordinary fields, and hostile ones: every text at once, each by itself, and what is no such field at all."""
    rows, hostile = schema.get("properties", {}), (*HOSTILE, *files)
    texts = [name for name, row in rows.items() if "string" in str(row) and "array" not in str(row)]
    flags = {name: True for name, row in rows.items() if row.get("type") == "boolean"}
    yield base
    yield {**base, **flags, **{name: "tea" for name in texts if name in ("text", "query", "prompt", "note", "id")}}
    for one in hostile:
        yield {**base, **dict.fromkeys(texts, one)}
    for number, name in enumerate(texts):
        yield {**base, name: hostile[number % len(hostile)]}
    for name in (name for name, row in rows.items() if "array" in str(row)):
        yield {**base, name: list(files)}
    for wrong in _WRONG:
        yield {**base, **dict.fromkeys(rows, wrong)}
    yield {**base, "workspace": files[0], "root": files[0], "config": files[0]}


def own_words(fields: object) -> tuple[str, ...]:
    """Every text that a client sent; of a long one also what messages quote of it."""
    found = [text for text in texts_in(fields) if len(text) > 2]
    return (*found, *(text[:length] for text in found for length in (60, 80, 100, 200) if len(text) > length))


def texts_in(value: object) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(one)
