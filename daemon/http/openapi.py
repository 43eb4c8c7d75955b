"""OpenAPI document: made of the table of operations and the daemon's own routes.

The schemas are those with which pydantic reads requests and writes replies. The Unix socket and the port have
different documents, because the port answers less.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from daemon.api.client import ADOPT_HEADER, NDJSON, ROOT_HEADER
from daemon.api.daemon import DaemonInfo, DaemonStatus
from daemon.api.operations.operation import AnyOperation, FieldsError
from daemon.api.operations.table import OPERATIONS
from daemon.http.calls import NOTICE_HEADER
from daemon.http.errors import DISK_FULL, OF_HTTP, RETRY_SECONDS
from state.errors import KINDS, CeilingError, DreamdError, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

_SCHEMAS = "#/components/schemas/"
_ABOUT = """The memory of agents: notes, searches, dreams. The same operations as the command line's and MCP's.

An error is `{"error": …, "code": …, "details": {}}`; what answers another method than the one that is asked is 405
METHOD_NOT_ALLOWED, and what leads nowhere 404 NOT_FOUND. A plain reply has its notices in `Dreamd-Notice` headers,
percent-encoded. With `Accept: application/x-ndjson` the answer is a line for each step
(`{"step": {"node", "figures"}}`) and notice (`{"notice": …}`) and at the end `{"reply": …}` or
`{"error": {"error", "code", "details"}}`; an error before the first step is a plain one. Whoever goes away in the
middle stops nothing."""

_KINDS: tuple[type[DreamdError], ...] = (*KINDS, FieldsError)
# Statuses of every request, of those at the port, and of operations that call no model.
_ALWAYS = (413, 415, 500, 503)
_AT_THE_PORT = (401, 403, 421)
_OF_MODELS = frozenset({ModelError.http_status, CeilingError.http_status})
_OF_OPERATIONS = frozenset({*(kind.http_status for kind in _KINDS), DISK_FULL}) - _OF_MODELS
# `name_of` of daemon.config.registry.
_NAME: Json = {"type": "string", "pattern": "^[a-z0-9-]+$", "minLength": 1, "maxLength": 48}


def document(*, is_local: bool) -> Json:
    """Return the document of the Unix socket, or of the port."""
    operations = [one for one in OPERATIONS.values() if one.remote or is_local]
    schemas, components = _schemas(operations)
    paths: dict[str, Json] = {}
    for one in operations:
        path = paths.setdefault(f"/v1/workspaces/{{workspace}}{one.path}", _of_workspace(is_local=is_local))
        path[one.method.lower()] = _operation(one, schemas, components, is_local=is_local)
    paths |= _of_daemon(schemas, is_local=is_local)
    part: Json = {
        "openapi": "3.1.0",
        "info": {"title": "dreamd", "version": version("dreamd"), "description": _ABOUT},
        "tags": [
            {"name": "workspace", "description": "What can be asked of one workspace"},
            {"name": "daemon", "description": "What is known of the daemon"},
        ],
        "paths": paths,
        "components": {
            "schemas": {name: components[name] for name in sorted(components)},
            "responses": {str(status): _error(codes) for status, codes in CODES.items()},
            "headers": {"Notice": _notice_header()},
        },
    }
    if not is_local:
        token = {"type": "http", "scheme": "bearer", "description": "The token in the file that 'dreamd serve' names"}
        part["components"]["securitySchemes"] = {"token": token}
        part["security"] = [{"token": []}]
    return part


def _schemas(operations: Iterable[AnyOperation]) -> tuple[Mapping[tuple[str, str], Json], dict[str, Json]]:
    """Return the schema of each request and reply, by operation and mode, and what they refer to."""
    from pydantic import TypeAdapter

    def every() -> "Iterator[tuple[str, Any, TypeAdapter[Any]]]":
        for operation in operations:
            if operation.method == "POST":
                yield operation.name, "validation", TypeAdapter(operation.request)
            yield operation.name, "serialization", TypeAdapter(operation.reply)
        yield "workspaces", "serialization", TypeAdapter(DaemonInfo)
        yield "daemon_status", "serialization", TypeAdapter(DaemonStatus)

    schemas, shared = TypeAdapter.json_schemas(list(every()), ref_template=_SCHEMAS + "{model}")
    components: dict[str, Json] = {**shared["$defs"], "Error": _ERROR}
    return {(name, mode): schema for (name, mode), schema in schemas.items()}, components


def _of_workspace(*, is_local: bool) -> Json:
    """Return the parameters of all operations on a workspace."""
    name = {
        "name": "workspace",
        "in": "path",
        "required": True,
        "description": "The workspace's name, as in GET /v1/workspaces",
        "schema": _NAME,
    }
    root = {
        "name": ROOT_HEADER,
        "in": "header",
        "required": False,
        "description": "The absolute root of the workspace that is meant, percent-encoded",
        "schema": {"type": "string"},
    }
    adopt = {
        "name": ADOPT_HEADER,
        "in": "header",
        "required": False,
        "description": "yes: a workspace at this root that the daemon does not know is looked after from now on",
        "schema": {"type": "string", "enum": ["yes"]},
    }
    return {"parameters": [name, root, adopt] if is_local else [name]}


def _operation(
    operation: AnyOperation, schemas: Mapping[tuple[str, str], Json], components: dict[str, Json], *, is_local: bool
) -> Json:
    reply = schemas[operation.name, "serialization"]
    statuses = {*_ALWAYS, *_OF_OPERATIONS, *(() if is_local else _AT_THE_PORT)}
    if operation.long:
        statuses |= {*_OF_MODELS}
    part: Json = {
        "operationId": operation.name,
        "tags": ["workspace"],
        "summary": operation.summary.partition(". ")[0].rstrip("."),
        "description": operation.summary,
        "responses": {
            "200": {
                "description": "The reply",
                "headers": {NOTICE_HEADER: {"$ref": "#/components/headers/Notice"}},
                "content": {
                    "application/json": {"schema": reply},
                    NDJSON: {"schema": {"type": "string", "description": "A JSON object on each line"}},
                },
            },
            **_errors(statuses),
        },
    }
    if operation.method == "GET":
        part["parameters"] = list(_query(operation, components))
    else:
        content = {"application/json": {"schema": schemas[operation.name, "validation"]}}
        part["requestBody"] = {"required": True, "content": content}
    return part


def _query(operation: AnyOperation, components: dict[str, Json]) -> "Iterator[Json]":
    """Return a request's fields as parameters. A query cannot say null: a field that may be null may be left out."""
    schema = operation.request.model_json_schema(ref_template=_SCHEMAS + "{model}")
    for name, kind in schema.pop("$defs", {}).items():
        components.setdefault(name, kind)
    for name, field in schema.get("properties", {}).items():
        kind = {key: value for key, value in field.items() if key not in ("description", "title")}
        if "anyOf" in kind:
            kinds = [one for one in kind.pop("anyOf") if one != {"type": "null"}]
            kind = {**kind, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})}
        if kind.get("default", ...) is None:
            del kind["default"]
        yield {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": field.get("description", ""),
            "schema": kind,
        }


def _of_daemon(schemas: Mapping[tuple[str, str], Json], *, is_local: bool) -> dict[str, Json]:
    """Return the daemon's own routes, by path and method."""
    guarded = (*_ALWAYS, *(() if is_local else _AT_THE_PORT))
    open_to_all = (*_ALWAYS, *(() if is_local else (403, 421)))
    state = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
    info, status = schemas["workspaces", "serialization"], schemas["daemon_status", "serialization"]
    routes = {
        "/v1/workspaces": _route(
            "workspaces", "The workspaces that the daemon knows, and the daemon itself", info, guarded
        ),
        "/v1/status": _route("status", "How the daemon and every workspace is", status, guarded),
        "/v1/openapi.json": _route("openapi", "This document", {"type": "object"}, guarded),
        "/metrics": _route("metrics", "Figures for Prometheus", {"type": "string"}, guarded, kind="text/plain"),
        "/healthz": _route("alive", "That the daemon answers", state, open_to_all) | {"security": []},
        "/readyz": _route("ready", "That it serves; 503 NOT_READY says why not", state, open_to_all)
        | {"security": []},
    }
    routes["/readyz"]["responses"]["503"] = _error(CODES[503] | _NOT_READY)
    every: dict[str, Json] = {path: {"get": route} for path, route in routes.items()}
    if is_local:
        path = {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Its root, absolute"}
        body = {"type": "object", "required": ["path"], "properties": {"path": path}, "additionalProperties": False}
        named = {"type": "object", "required": ["name"], "properties": {"name": _NAME}}
        statuses = (*_ALWAYS, *_OF_OPERATIONS)
        adopt = _route("adopt", "Look after a workspace from now on", named, statuses, reply="Its name")
        adopt["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        about = "Look after a workspace no more; nothing in it is changed"
        release = _route("release", about, named, statuses, reply="Its name")
        every["/v1/workspaces"]["post"] = adopt
        every["/v1/workspaces/{workspace}"] = {**_of_workspace(is_local=True), "delete": release}
        every["/v1/login"] = {"post": _login()}
    return every


def _login() -> Json:
    url = {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}
    route = _route("login", "A link that logs a browser in, once and within a minute", url, (*_ALWAYS, 404, 422))
    name = {"type": "string", "pattern": "^[a-z0-9-]*$", "maxLength": 48, "description": "The workspace to look at"}
    body = {"type": "object", "properties": {"workspace": name}, "additionalProperties": False}
    route["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return route


def _route(
    name: str, about: str, schema: Json, statuses: Iterable[int], *, reply: str = "", kind: str = "application/json"
) -> Json:
    """Return a route of the daemon itself; `reply` describes its reply, where `about` does not."""
    answer = {"description": reply or about, "content": {kind: {"schema": schema}}}
    return {
        "operationId": name,
        "tags": ["daemon"],
        "summary": about,
        "responses": {"200": answer, **_errors(statuses)},
    }


def _codes() -> dict[int, dict[str, str]]:
    """Return the codes of every status, each with what it means."""
    part: dict[int, dict[str, str]] = {}
    for status, about in OF_HTTP.items():
        code, _, meaning = about.partition(": ")
        part.setdefault(status, {})[code] = meaning
    for kind in _KINDS:
        part.setdefault(kind.http_status, {})[kind.code] = (kind.__doc__ or "").splitlines()[0]
    return {status: part[status] for status in sorted(part)}


CODES = _codes()
_PASSING = frozenset(kind.code for kind in _KINDS if kind.passing)
_NOT_READY = {"NOT_READY": "It does not serve yet, or no more; the message says why"}

_ERROR: Json = {
    "type": "object",
    "description": "What went wrong: a line for a person, a code for a program, and what more is known",
    "required": ["error", "code", "details"],
    "properties": {
        "error": {"type": "string", "description": "What happened to what, and what to do"},
        "code": {
            "type": "string",
            "enum": sorted({code for codes in (*CODES.values(), _NOT_READY) for code in codes}),
            "description": "What a program goes by; each status has its own",
        },
        "details": {
            "type": "object",
            "properties": {
                "fields": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "Of a 422: each field that is wrong, and what is wrong with it",
                }
            },
        },
    },
    "additionalProperties": False,
}


def _errors(statuses: Iterable[int]) -> Json:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _error(codes: Mapping[str, str]) -> Json:
    """Return a response that has one of these codes; a Retry-After belongs to those that pass by themselves."""
    schema = {"$ref": f"{_SCHEMAS}Error", "properties": {"code": {"enum": sorted(codes)}}}
    part: Json = {
        "description": "\n\n".join(f"{code}: {meaning}" for code, meaning in codes.items()),
        "content": {"application/json": {"schema": schema}},
    }
    if passing := sorted(_PASSING.intersection(codes)):
        about = f"Of {', '.join(passing)}: after so many seconds it may be asked again"
        part["headers"] = {
            "Retry-After": {"description": about, "schema": {"type": "integer", "example": RETRY_SECONDS}}
        }
    return part


def _notice_header() -> Json:
    return {
        "description": "What a person should know of this call, percent-encoded; one header for each, the first ten",
        "schema": {"type": "string"},
    }
