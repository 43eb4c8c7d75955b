"""The OpenAPI document is valid and true: requests made of it are answered as it says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from jsonschema_rs import ValidationError

from daemon.api.operations.household import HOUSEHOLD
from daemon.api.operations.table import OPERATIONS
from daemon.http.errors import error_response
from daemon.http.openapi import document
from state.errors import KINDS, DreamdError
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
    every = (*OPERATIONS.values(), *HOUSEHOLD.values())
    assert named >= {one.name for one in every if one.remote or is_local}
    assert ("ingest" in named) is ("register" in named) is ("release" in named) is is_local
    assert ("security" in said) is not is_local
    referred = set(_references(said))
    for reference in referred:
        found: Any = said
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    assert {f"#/components/schemas/{one}" for one in said["components"]["schemas"]} <= referred


def test_every_error_that_there_is_stands_in_the_document() -> None:
    said = document(is_local=False)
    response, known = said["components"]["responses"]["Error"], said["components"]["schemas"]["Error"]["properties"]
    lines = response["description"].splitlines()
    for kind in KINDS:
        answer = error_response(kind("it went wrong"))
        assert any(line.startswith(f"{answer.status} {kind.code}: ") for line in lines)
        assert kind.code in known["code"]["enum"]
        assert ("Retry-After" in answer.headers) is kind.passing
        assert (kind.code in response["headers"]["Retry-After"]["description"]) is kind.passing
    assert {kind.code for kind in subclasses(DreamdError)} == {kind.code for kind in KINDS}


def test_what_goes_wrong_is_what_the_document_says(server: Running, tmp_path: Path) -> None:
    name = server.house.make(tmp_path)
    said = document(is_local=False)["components"]
    tried: list[tuple[int, str, str, str, dict[str, Any]]] = [
        (401, "UNAUTHORIZED", "GET", "mood", {"token": False}),
        (403, "FORBIDDEN", "GET", "mood", {"headers": {"Origin": "https://elsewhere.example"}}),
        (404, "NOT_FOUND", "POST", "restore", {"fields": {"version": 9}}),
        (405, "METHOD_NOT_ALLOWED", "GET", "restore", {}),
        (409, "NOTHING_TO_DO", "POST", "dream_now", {"fields": {}}),
        (413, "TOO_LARGE", "POST", "feel", {"body": b" " * (1 << 21), "headers": {"Content-Type": JSON_KIND}}),
        (415, "UNSUPPORTED_MEDIA_TYPE", "POST", "feel", {"body": b"event=x"}),
        (421, "MISDIRECTED", "GET", "mood", {"headers": {"Host": "elsewhere.example"}}),
        (422, "VALIDATION_ERROR", "POST", "feel", {"fields": {"event": 7}}),
        (400, "VALIDATION_ERROR", "POST", "feel", {"body": b"[", "headers": {"Content-Type": JSON_KIND}}),
    ]
    for status, code, method, operation, asked in tried:
        fields = asked.pop("fields", None)
        answer = server.ask(method, f"/v1/workspaces/{name}/{operation}", fields, **asked)
        assert (answer.status, answer.code) == (status, code)
        assert f"{status} {code}: " in said["responses"]["Error"]["description"]
        assert code in said["schemas"]["Error"]["properties"]["code"]["enum"]


def subclasses(kind: type[DreamdError]) -> Iterator[type[DreamdError]]:
    """Every class of errors below this one, in whatever module."""
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def test_a_document_that_is_not_valid_would_be_seen() -> None:
    said = document(is_local=False)
    del said["paths"]["/metrics"]["get"]["responses"]["200"]["description"]
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
