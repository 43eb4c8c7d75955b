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
from state.errors import KINDS, DreamdError
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import Running, running
from tests.redteam.http_fuzz import by_document, lived_in
from tests.support.long_variants import is_whole


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(OwnHouse()) as started:
        yield started


def test_what_is_asked_by_the_document_is_answered_by_it(server: Running, tmp_path: Path) -> None:
    assert by_document(server, lived_in(server, tmp_path), 1, ["--max-examples", "20" if is_whole() else "2"]) == ""


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
        assert f"{kind.code}: " in said["components"]["responses"][status]["description"]
    assert {kind.code for kind in subclasses(DreamdError)} == {kind.code for kind in KINDS}
    expired = said["paths"]["/v1/workspaces/{workspace}/mood"]["get"]["responses"]["410"]
    assert expired == {"$ref": "#/components/responses/410"}


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
