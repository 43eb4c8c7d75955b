"""The stores that generations are put into: a folder, and a server that speaks S3."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state.stores.generations.objects import Objects, open_objects

if TYPE_CHECKING:
    from tests.support.s3 import S3


@pytest.fixture
def folder_store(tmp_path: Path) -> Objects:
    return open_objects((tmp_path / "store").as_uri(), {})


@pytest.fixture(params=["folder", "s3"])
def objects(request: pytest.FixtureRequest) -> Objects:
    if request.param == "folder":
        found: Objects = request.getfixturevalue("folder_store")
        return found
    server: S3 = request.getfixturevalue("s3")
    return open_objects(server.url, server.options)
