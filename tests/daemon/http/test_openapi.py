"""The OpenAPI document is valid and true: requests made of it are answered as it says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from jsonschema_rs import ValidationError

from daemon.api.operations.table import OPERATIONS
from daemon.http.errors import error_response
from daemon.http.openapi import document
from daemon.workspace.adoption import open_workspace
from state.errors import KINDS, DreamdError
from state.stores.disk.lock import acquire
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import Running, running
from tests.redteam.http_fuzz import by_document, lived_in

JSON_KIND = "application/json"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(OwnHouse()) as started:
        yield started


@pytest.mark.full
def test_what_is_asked_by_the_document_is_answered_by_it(server: Running, tmp_path: Path) -> None:
    assert by_document(server, lived_in(server, tmp_path), 1, ("--max-examples", "10")) == ""


@pytest.mark.parametrize("is_local", [True, False])
def test_the_document_is_valid_and_whole(is_local: bool) -> None:  # noqa: FBT001
    said = document(is_local=is_local)
    schemathesis.openapi.from_dict(said).validate()
    named = {
        answer["operationId"]
        for path in said["paths"].values()
        for answer in path.values()
        if "operationId" in answer
    }
    assert named >= {one.name for one in OPERATIONS.values() if one.remote or is_local}
    assert ("ingest" in named) is ("adopt" in named) is ("release" in named) is is_local
    assert ("security" in said) is not is_local
    referred = set(_references(said))
    for reference in referred:
        found: Any = said
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    assert {f"#/components/schemas/{one}" for one in said["components"]["schemas"]} <= referred


def test_every_error_that_there_is_has_its_status_in_the_document() -> None:
    said = document(is_local=False)
    of_dreams = said["paths"]["/v1/workspaces/{workspace}/dream"]["post"]["responses"]
    for kind in KINDS:
        status = str(error_response(kind("it went wrong")).status)
        assert status in of_dreams
        response = said["components"]["responses"][status]
        assert f"{kind.code}: " in response["description"]
        assert kind.code in _codes_of(response)
        assert ("Retry-After" in error_response(kind("it went wrong")).headers) is (
            kind.passing and kind.code in response["headers"]["Retry-After"]["description"]
        )
    assert {kind.code for kind in subclasses(DreamdError)} == {kind.code for kind in KINDS}
    expired = said["paths"]["/v1/workspaces/{workspace}/mood"]["get"]["responses"]["410"]
    assert expired == {"$ref": "#/components/responses/410"}


def _codes_of(response: Any) -> list[str]:
    codes: list[str] = response["content"]["application/json"]["schema"]["properties"]["code"]["enum"]
    return codes


def _told(said: Any, path: str, method: str, status: int) -> tuple[list[str], Any]:
    """The codes that the document has for this answer, and its headers."""
    response = said["paths"][path][method.lower()]["responses"][str(status)]
    if "$ref" in response:
        response = said["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return _codes_of(response), response.get("headers", {})


def test_what_goes_wrong_is_what_the_document_says(server: Running, tmp_path: Path) -> None:
    name = server.house.make(tmp_path)
    said, here = document(is_local=False), "/v1/workspaces/{workspace}"
    tried: list[tuple[int, str, str, str, dict[str, Any]]] = [
        (401, "UNAUTHORIZED", "GET", "/mood", {"token": False}),
        (403, "FORBIDDEN", "GET", "/mood", {"headers": {"Origin": "https://elsewhere.example"}}),
        (404, "UNKNOWN_WORKSPACE", "GET", "/mood", {"workspace": "nobody-0"}),
        (404, "NOT_FOUND", "POST", "/restore", {"fields": {"version": 9}}),
        (409, "NOTHING_TO_DO", "POST", "/dream", {"fields": {}}),
        (413, "TOO_LARGE", "POST", "/notes", {"body": b" " * (1 << 21), "headers": {"Content-Type": JSON_KIND}}),
        (415, "UNSUPPORTED_MEDIA_TYPE", "POST", "/notes", {"body": b"note=x"}),
        (421, "MISDIRECTED", "GET", "/mood", {"headers": {"Host": "elsewhere.example"}}),
        (422, "VALIDATION_ERROR", "POST", "/notes", {"fields": {"note": 7}}),
        (400, "VALIDATION_ERROR", "POST", "/notes", {"body": b"[", "headers": {"Content-Type": JSON_KIND}}),
        (400, "CONFIRM_REQUIRED", "POST", "/forget", {"fields": {"text": "x"}}),
    ]
    for status, code, method, path, asked in tried:
        workspace = asked.pop("workspace", name)
        fields = asked.pop("fields", None)
        answer = server.ask(method, f"/v1/workspaces/{workspace}{path}", fields, **asked)
        assert (answer.status, answer.code) == (status, code)
        codes, headers = _told(said, here + path, method, status)
        assert code in codes
        assert "Retry-After" not in answer.headers or "Retry-After" in headers
    server.house.reason = "recovering"
    assert server.ask("GET", "/readyz").code in _told(said, "/readyz", "GET", 503)[0]
    server.house.reason = ""


def test_a_busy_workspace_says_when_to_ask_again(tmp_path: Path) -> None:
    house = OwnHouse(wait_seconds=0)
    name = house.make(tmp_path)
    with running(house) as started, acquire(open_workspace(tmp_path), "dreamd dream"):
        answer = started.ask("POST", f"/v1/workspaces/{name}/feelings", {"event": "reward"})
    codes, headers = _told(document(is_local=False), "/v1/workspaces/{workspace}/feelings", "POST", answer.status)
    assert answer.code in codes
    assert answer.code in headers["Retry-After"]["description"]
    assert int(answer.headers["Retry-After"]) > 0


def subclasses(kind: type[DreamdError]) -> Iterator[type[DreamdError]]:
    """Every class of errors below this one, in whatever module."""
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def test_a_document_that_is_not_valid_would_be_seen() -> None:
    said = document(is_local=False)
    del said["paths"]["/v1/status"]["get"]["responses"]["200"]["description"]
    described = schemathesis.openapi.from_dict(said)
    with pytest.raises(ValidationError):
        described.validate()


def test_each_door_tells_its_own_document(server: Running) -> None:
    assert server.ask("GET", "/v1/openapi.json").json == json.loads(json.dumps(document(is_local=False)))
    assert server.ask_socket("GET", "/v1/openapi.json").json == json.loads(json.dumps(document(is_local=True)))


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref":
                yield value
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)
