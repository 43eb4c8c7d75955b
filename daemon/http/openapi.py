"""OpenAPI document: generated from the operations, with pydantic's schemas of their requests and replies.

The Unix socket and the port have different documents, because the port offers fewer operations.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from daemon.api.daemon import HOUSEHOLD
from daemon.api.headers import NDJSON, NOTICES_HEADER
from daemon.api.operations.operation import AnyOperation, FieldsError
from daemon.api.operations.table import OPERATIONS
from daemon.http.calls import FORMS
from daemon.http.errors import OF_HTTP, RETRY_SECONDS
from state.errors import KINDS, DreamdError

Json = dict[str, Any]

_SCHEMAS = "#/components/schemas/"
_ABOUT = f"""The memory of agents: notes, searches, dreams. The same operations as the command line's and MCP's.

Every operation is asked by POST with a JSON object; one that only reads by GET as well, its fields in the query. With
`Accept: text/plain` or `?as=text` the reply is the text that people and agents read. With `Accept: {NDJSON}`
it is a line for each step (`{{"step": {{"node", "figures"}}}}`) and notice (`{{"notice": …}}`), and at the end
`{{"reply": …}}` or `{{"error": {{"error", "code", "details"}}}}`; an error before the first step is a plain one.
A plain reply has its notices in the header `{NOTICES_HEADER}`, a JSON list. Whoever goes away stops nothing."""


def document(*, is_local: bool) -> Json:
    """Return the document of the Unix socket, or of the port."""
    asked = [("/v1/workspaces/{workspace}/", OPERATIONS, "workspace"), ("/v1/", HOUSEHOLD, "daemon")]
    shown = [(place, one, tag) for place, table, tag in asked for one in table.values() if one.remote or is_local]
    schemas, shared = _schemas([one for _, one, _ in shown])
    paths: Json = {f"{place}{one.name}": dict(_methods(one, tag, schemas)) for place, one, tag in shown}
    for path, methods in paths.items():
        if "{" in path:
            methods["parameters"] = [_OF_WORKSPACE]
    for path, about, kind in _MONITORED:
        responses = {"200": {"description": about, "content": {kind: {"schema": {}}}}, "default": _REFUSED}
        paths[path] = {"get": {"operationId": path.rpartition("/")[2], "summary": about, "responses": responses}}
    components = {"schemas": shared["$defs"] | {"Error": _ERROR}, "responses": {"Error": _error()}}
    info = {"title": "dreamd", "version": version("dreamd"), "description": _ABOUT}
    whole: Json = {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}
    if not is_local:
        token = {"type": "http", "scheme": "bearer", "description": "The token in the file that 'dreamd serve' names"}
        components["securitySchemes"], whole["security"] = {"token": token}, [{"token": []}]
        paths["/healthz"]["get"]["security"] = paths["/readyz"]["get"]["security"] = []
    return whole


def _schemas(operations: list[AnyOperation]) -> tuple[Mapping[tuple[str, str], Json], Json]:
    """Return the schema of each request and reply, by operation and mode, and their shared definitions."""
    from pydantic import TypeAdapter

    requests = [(one.name, "validation", TypeAdapter(one.request)) for one in operations]
    replies = [(one.name, "serialization", TypeAdapter(one.reply)) for one in operations]
    every: Any = [*requests, *replies]
    schemas, shared = TypeAdapter.json_schemas(every, ref_template=_SCHEMAS + "{model}")
    return {(str(name), mode): schema for (name, mode), schema in schemas.items()}, shared


def _methods(one: AnyOperation, tag: str, schemas: Mapping[tuple[str, str], Json]) -> Iterator[tuple[str, Json]]:
    request, reply = schemas[one.name, "validation"], schemas[one.name, "serialization"]
    text = {"schema": {"type": "string"}}
    lines = {"schema": {"type": "string", "description": "A JSON object on each line"}}
    content = {"application/json": {"schema": reply}, "text/plain": text, NDJSON: lines}
    part: Json = {
        "tags": [tag],
        "summary": one.summary.partition(". ")[0].rstrip("."),
        "description": one.summary,
        "responses": {"200": {"description": "The reply", "content": content}, "default": _REFUSED},
    }
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    yield "post", {**part, "operationId": one.name, "parameters": [_AS], "requestBody": body}
    if one.reads:
        yield "get", {**part, "operationId": f"{one.name}_by_get", "parameters": [_AS, *_query(request)]}


def _query(request: Json) -> Iterator[Json]:
    """Return the fields of a request as query parameters, without null and objects, which a query cannot express."""
    required = request.get("required", ())
    for name, field in request.get("properties", {}).items():
        kinds = [one for one in field.get("anyOf", [field]) if one != {"type": "null"}]
        schema = {key: value for key, value in kinds[0].items() if key not in ("description", "title", "default")}
        about = field.get("description", "")
        yield {"name": name, "in": "query", "required": name in required, "description": about, "schema": schema}


def _error() -> Json:
    """Return the response for all errors: each status with its codes and their meaning."""
    kinds: tuple[type[DreamdError], ...] = (*KINDS, FieldsError)
    passing = sorted(one.code for one in kinds if one.passing)
    said = {f"{one.http_status} {one.code}: {(one.__doc__ or '').splitlines()[0]}" for one in kinds}
    said |= {f"{status} {about}" for status, about in OF_HTTP.items()}
    retry = f"Of {', '.join(passing)}: after so many seconds it may be asked again"
    return {
        "description": "\n\n".join(sorted(said)),
        "content": {"application/json": {"schema": {"$ref": f"{_SCHEMAS}Error"}}},
        "headers": {"Retry-After": {"description": retry, "schema": {"type": "integer", "example": RETRY_SECONDS}}},
    }


_REFUSED: Json = {"$ref": "#/components/responses/Error"}
_AS: Json = {"name": "as", "in": "query", "schema": {"enum": list(FORMS)}, "description": "The form of the reply"}
_OF_WORKSPACE: Json = {
    "name": "workspace",
    "in": "path",
    "required": True,
    "description": "Its name, as 'workspaces' lists it",
    "schema": {"type": "string", "pattern": "^[a-z0-9-]+$"},
}
_MONITORED = (
    ("/v1/openapi.json", "This document", "application/json"),
    ("/metrics", "Figures for Prometheus", "text/plain"),
    ("/healthz", "That the daemon answers", "application/json"),
    ("/readyz", "That it serves; 503 NOT_READY says why not", "application/json"),
)
_CODES = {one.code for one in KINDS} | {about.partition(":")[0] for about in OF_HTTP.values()}
_ERROR: Json = {
    "type": "object",
    "description": "What went wrong: a line for a person, a code for a program, and what more is known",
    "required": ["error", "code", "details"],
    "properties": {
        "error": {"type": "string", "description": "What happened to what, and what to do"},
        "code": {"type": "string", "enum": sorted(_CODES)},
        "details": {"type": "object", "description": "Of a 422: `fields`, what is wrong with each"},
    },
    "additionalProperties": False,
}
