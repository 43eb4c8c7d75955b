"""For every test: no daemon of whoever runs them, and Hypothesis looks for wrong answers, not for slow ones."""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, is_hypothesis_test, settings

from daemon.config import beside
from tests.support import embedding, forked, heavy
from tests.support.fleet_tables import fleet_url  # noqa: F401 - a fixture
from tests.support.folders import PLACE
from tests.support.long_variants import ALL_EXAMPLES, IS_LONG
from tests.support.postgres import database_url, postgres  # noqa: F401 - fixtures
from tests.support.s3 import s3, s3_server  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from tests.support.running import Caller
    from tests.support.serving import Home

_FORKING = pytest.StashKey[str]()
_OF_A_USER = [
    f"DREAMD_{name}" for name in "SOCKET TOKEN WORKSPACE CONFIG DEBUG TIMEZONE MODEL__NAME DREAM__ASK".split()
]

# A busy machine is no defect; what must stay quick is measured in benchmarks/, and a test that hangs runs into its
# timeout. What decides whether a change lands draws the same examples each time; `make laws` looks for others.
settings.register_profile("few", deadline=None, max_examples=12, derandomize=True)
settings.register_profile("all", deadline=None, max_examples=ALL_EXAMPLES, derandomize=True)
settings.register_profile("other", deadline=None, max_examples=ALL_EXAMPLES, print_blob=True)
# `make mutants` asks only whether a law fails, thousands of times, and not for its smallest example.
settings.register_profile("mutants", settings.get_profile("few"), phases=(Phase.explicit, Phase.generate))
settings.load_profile("other" if IS_LONG else "few")


# What a module imports whose tests do more in `make test-rest`.
_VARYING = ("fewer", "is_whole", "every_fault", "share")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rest", action="store_true", help="only what `make test` leaves out, or does with fewer examples"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --rest, leave out what `make test` has run as a whole."""
    if config.getoption("--rest"):
        done = [item for item in items if not _is_left_out(item)]
        config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if _is_left_out(item)]


def _is_left_out(item: pytest.Item) -> bool:
    function, module = getattr(item, "obj", None), getattr(item, "module", None)
    is_law = is_hypothesis_test(function) or hasattr(getattr(item, "cls", None), "settings")
    return item.get_closest_marker("full") is not None or is_law or any(hasattr(module, name) for name in _VARYING)


def pytest_configure(config: pytest.Config) -> None:
    """One server of forked processes for all workers of a run; `tmp_path` is where other folders are."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", PLACE)
    heavy.share()
    beside.start = forked.Forked
    if not hasattr(config, "workerinput"):
        embedding.ensure()
        config.stash[_FORKING] = forked.begin()


def pytest_collection_finish() -> None:
    """What was loaded to find the tests stays to the end: no collection of garbage looks through it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(_FORKING, None):
        forked.end(folder)


@pytest.fixture(autouse=True, scope="session")
def own_places() -> Iterator[None]:
    """The registry, the token and the socket of the tests. Their folder's path is short: a socket's must be.

    No configuration, no workspace, no model and no time zone of whoever runs the tests.
    """
    with tempfile.TemporaryDirectory(prefix="dreamd-", dir=PLACE) as folder, pytest.MonkeyPatch.context() as patch:
        for name in _OF_A_USER:
            patch.delenv(name, raising=False)
        patch.setenv("XDG_STATE_HOME", f"{folder}/state")
        patch.setenv("XDG_DATA_HOME", f"{folder}/data")
        patch.setenv("XDG_RUNTIME_DIR", folder)
        patch.setenv("XDG_CONFIG_HOME", f"{folder}/no-config")
        patch.setenv("TZ", "UTC")
        yield


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who has nothing yet."""
    for name in ("STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.fixture(params=["linux", "macos"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test and its processes twice: with Linux's own calls, and without them, as on macOS."""
    if request.param == "macos":
        monkeypatch.setenv("_DREAMD_PORTABLE", "1")


@pytest.fixture
def home() -> Iterator["Home"]:
    """A home for daemons."""
    from tests.support.serving import at_home

    with at_home() as one:
        yield one


@pytest.fixture
def dreamd(capsys: pytest.CaptureFixture[str]) -> "Caller":
    from tests.support.running import Caller

    return Caller(capsys)
