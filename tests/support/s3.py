"""An object store that speaks S3, in a process of its own: it may be killed, and comes back with all it acknowledged.

The fixture `s3` is one server a worker of the run, empty for each test; a test may kill and start it.
"""

import secrets
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.support.folders import PLACE
from tests.support.ports import free_port

_ROOT = Path(__file__).parents[2]
_MODULE, _CLEAR = "tests.support.s3_server", "/-/clear"
_PATIENCE_SECONDS = 120.0
_REGION = "eu-central-1"


class S3:
    """A server at one port of 127.0.0.1 with one bucket, from `start` to `close`; between them it may be killed and
    started again.
    """

    def __init__(self, bucket: str = "memory", prefix: str = "fleet") -> None:
        self.port, self.bucket, self.prefix = free_port(), bucket, prefix
        self._access_key, self._secret_key = "AKIATESTS" + secrets.token_hex(4).upper(), secrets.token_urlsafe(24)
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """The variables of the environment by which a client finds it and is let in."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self._access_key,
            "AWS_SECRET_ACCESS_KEY": self._secret_key,
            "AWS_REGION": _REGION,
        }

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, for the first time or again, until it answers."""
        assert not self.lives, "it runs already"
        self._folder = self._folder or Path(tempfile.mkdtemp(prefix="dreamd-s3-", dir=PLACE))
        log = self._folder / "said"
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, self._folder, str(self.port), self.bucket, self._access_key],
                cwd=_ROOT,
                env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "S3_UPLOAD_PART_MIN_SIZE": "5242880"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), f"S3 did not start: {log.read_text(errors='replace')[-2000:]}"

    def kill(self) -> None:
        """Kill it, as when the machine loses its power."""
        assert self._process is not None, "it was never started"
        with self._process as process:
            process.kill()
            process.wait(_PATIENCE_SECONDS)

    def clear(self) -> None:
        """Forget all objects and uploads."""
        asked = urllib.request.Request(  # noqa: S310 - http, to this machine
            self.endpoint + _CLEAR, method="POST", headers={"Authorization": f"Credential={self._access_key}/"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=_PATIENCE_SECONDS):
            pass

    def close(self) -> None:
        """End it for good; nothing of it is left."""
        if self._process is not None:
            self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder)
        self._process = self._folder = None


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3]:
    with S3() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3) -> S3:
    """The object store of this worker, empty."""
    if not s3_server.lives:
        s3_server.start()
    s3_server.clear()
    return s3_server
