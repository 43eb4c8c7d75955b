"""The OpenAPI document is valid and true: requests made of it are answered as it says."""

import errno
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from jsonschema_rs import ValidationError

from daemon.api.daemon import HOUSEHOLD
from daemon.api.operations.table import OPERATIONS
from daemon.http.errors import http_error
from daemon.http.openapi import document
from state.errors import KINDS, BusyError, DreamdError
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import JSON, Running, running
from tests.redteam.http_fuzz import by_document, lived_in


@pytest.mark.full
def test_what_is_asked_by_the_document_is_answered_by_it(tmp_path: Path) -> None:
    with running(OwnHouse()) as server:
        assert by_document(server, lived_in(server, tmp_path), 1, ("--max-examples", "10")) == ""


@pytest.mark.parametrize("is_local", [True, False])
def test_the_document_is_valid_and_whole(served: Running, is_local: bool) -> None:  # noqa: FBT001
    said = document(is_local=is_local)
    ask = served.ask_socket if is_local else served.ask
    assert ask("GET", "/v1/openapi.json").json == json.loads(json.dumps(said))
    schemathesis.openapi.from_dict(said).validate()
    answers = [one for path in said["paths"].values() for one in path.values() if isinstance(one, dict)]
    every = {one for one in (*OPERATIONS.values(), *HOUSEHOLD.values()) if one.remote or is_local}
    posted = {path["post"]["operationId"] for path in said["paths"].values() if "post" in path}
    assert posted == {one.name for one in every}
    assert len({one["operationId"] for one in answers}) == len(answers)
    assert ("security" in said) is not is_local
    referred = set(_references(said))
    for reference in referred:
        found: Any = said
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    assert {f"#/components/schemas/{one}" for one in said["components"]["schemas"]} <= referred
    del said["paths"]["/metrics"]["get"]["responses"]["200"]["description"]
    with pytest.raises(ValidationError):  # one that is not valid would be seen
        schemathesis.openapi.from_dict(said).validate()


def _references(part: Any) -> Iterator[str]:
    values = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    if isinstance(part, dict) and isinstance(part.get("$ref"), str):
        yield part["$ref"]
    for value in values:
        yield from _references(value)


def test_every_error_that_there_is_stands_in_the_document(served: Running, name: str) -> None:
    said = document(is_local=False)["components"]
    response, codes = said["responses"]["Error"], said["schemas"]["Error"]["properties"]["code"]["enum"]
    lines = response["description"].splitlines()
    for kind in KINDS:
        answer = http_error(kind("it went wrong"))
        assert any(line.startswith(f"{answer.status} {kind.code}: ") for line in lines)
        assert kind.code in codes
        assert ("Retry-After" in answer.headers) is kind.passing
        assert (kind.code in response["headers"]["Retry-After"]["description"]) is kind.passing
    assert {kind.code for kind in _below(DreamdError)} == {kind.code for kind in KINDS}
    assert http_error(BusyError("it dreams")).status == 409
    of_sqlite = sqlite3.OperationalError("full")
    of_sqlite.sqlite_errorname = "SQLITE_FULL"
    for full in (OSError(errno.ENOSPC, "full", "/w"), of_sqlite):
        assert f"{http_error(full).status} {http_error(full).code}: the disk is full" in lines
    tried: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("401 UNAUTHORIZED", "mood", {"token": False}),
        ("403 FORBIDDEN", "mood", {"headers": {"Origin": "https://elsewhere.example"}}),
        ("404 NOT_FOUND", "restore", {"fields": {"version": 9}}),
        ("409 NOTHING_TO_DO", "dream_now", {"fields": {}}),
        ("413 TOO_LARGE", "feel", {"body": b" " * (1 << 21), "headers": JSON}),
        ("415 UNSUPPORTED_MEDIA_TYPE", "feel", {"body": b"event=x"}),
        ("421 MISDIRECTED", "mood", {"headers": {"Host": "elsewhere.example"}}),
        ("422 VALIDATION_ERROR", "feel", {"fields": {"event": 7}}),
        ("400 VALIDATION_ERROR", "feel", {"body": b"[", "headers": JSON}),
    )
    for expected, operation, asked in tried:
        failed = served.ask("POST", f"/v1/workspaces/{name}/{operation}", **asked)
        assert f"{failed.status} {failed.code}" == expected
        assert any(line.startswith(f"{expected}: ") for line in lines)
        assert failed.code in codes


def _below(kind: type[DreamdError]) -> Iterator[type[DreamdError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
