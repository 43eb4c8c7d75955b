"""The OpenAPI document is valid and true: requests made of it are answered as it says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from jsonschema_rs import ValidationError

from daemon.http.openapi import document
from daemon.http.wrong import wrong
from daemon.operations import OPERATIONS
from state.errors import KINDS, DreamdError
from tests.http.house import OwnHouse
from tests.http.running import TOKEN, Running, running

# Not positive_data_acceptance: what a request means is more than its schema says (a version that is not there, a note
# of spaces, one of two fields too many).
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
METHODS = {"get", "post", "delete"}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(OwnHouse()) as started:
        yield started


def test_what_is_asked_by_the_document_is_answered_by_it(server: Running, tmp_path: Path) -> None:
    name = server.house.make(tmp_path / "memory")
    there = f"/v1/workspaces/{name}"
    for note in ("the heron fishes at dawn", "we keep the ledger in SQLite"):
        assert server.ask("POST", f"{there}/notes", {"note": note, "importance": 0.9}).status == 200
    assert server.ask("POST", f"{there}/dream", {}).status == 200
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(f'[parameters]\n"path.workspace" = "{name}"\n')
    url = f"http://127.0.0.1:{server.port}/v1/openapi.json"
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run", url]
    options = ["--header", f"Authorization: Bearer {TOKEN}", "--checks", ",".join(CHECKS), "--continue-on-failure"]
    extent = ["--phases", "coverage,fuzzing", "--max-examples", "20", "--seed", "1", "--generation-database", "none"]
    run = subprocess.run(
        [*command, *options, *extent, "--no-color"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    paths = document(is_local=False)["paths"]
    del paths["/v1/openapi.json"]  # where it has the document from it does not ask again
    operations = sum(len(METHODS & path.keys()) for path in paths.values())
    assert f"Tested: {operations}" in run.stdout


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
        status = str(wrong(kind("it went wrong")).status)
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
