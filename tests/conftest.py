"""For every test: no daemon of whoever runs them, and Hypothesis looks for wrong answers, not for slow ones."""

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support import forked
from tests.support.folders import PLACE
from tests.support.long_variants import ALL_EXAMPLES, IS_LONG

_FORKING = pytest.StashKey[str]()

# A busy machine is no defect; what must stay quick is measured in benchmarks/, and a test that hangs runs into its
# timeout.
settings.register_profile("few", deadline=None, max_examples=30)
settings.register_profile("all", deadline=None, max_examples=ALL_EXAMPLES)
settings.load_profile("all" if IS_LONG else "few")


def pytest_configure(config: pytest.Config) -> None:
    """One server of forked processes for all workers of a run; `tmp_path` is where other folders are."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", PLACE)
    if not hasattr(config, "workerinput"):
        config.stash[_FORKING] = forked.begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    """No server outlives its run."""
    if folder := config.stash.get(_FORKING, None):
        forked.end(folder)


@pytest.fixture(autouse=True, scope="session")
def own_places() -> Iterator[None]:
    """The registry, the token and the socket of the tests. Their folder's path is short: a socket's must be."""
    folder = tempfile.mkdtemp(prefix="dreamd-", dir=PLACE)
    saved = {
        name: os.environ.get(name) for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "DREAMD_SOCKET", "DREAMD_TOKEN")
    }
    os.environ["XDG_STATE_HOME"] = f"{folder}/state"
    os.environ["XDG_RUNTIME_DIR"] = folder
    for name in ("DREAMD_SOCKET", "DREAMD_TOKEN"):
        os.environ.pop(name, None)
    yield
    shutil.rmtree(folder)
    for name, value in saved.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
