"""An S3 object store (moto's), in a process of its own behind a proxy, so that it can disappear and return.

The fixture `s3` is one server per worker of the run, empty for each test, which may kill and restart it. A kill only
cuts and refuses connections at the proxy; everything acknowledged is there after the restart.

    python -m tests.support.s3 PORT BUCKET ACCESS_KEY    # the program; it ends when its stdin is closed
"""

import io
import os
import secrets
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.partition import Partition
from tests.support.ports import free_port

_ROOT = Path(__file__).parents[2]
_CLEAR = "/-/clear"  # no bucket has such a name
_PATIENCE_SECONDS = 120.0
_REGION = "eu-central-1"
_REFUSED = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code><Message>The AWS access key Id you'
    b" provided does not exist in our records.</Message></Error>"
)


class S3:
    """A server at one port of 127.0.0.1 with one bucket, from `start` to `close`."""

    def __init__(self, bucket: str = "memory", prefix: str = "fleet") -> None:
        self.bucket, self.prefix, self.lives = bucket, prefix, False
        self._access_key, self._secret_key = "AKIATESTS" + secrets.token_hex(4).upper(), secrets.token_urlsafe(24)
        self._door = Partition(free_port())
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        return self._door.port

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """Return environment variables with the address and credentials for clients."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self._access_key,
            "AWS_SECRET_ACCESS_KEY": self._secret_key,
            "AWS_REGION": _REGION,
        }

    def start(self) -> None:
        """Start or restart it, and wait until it answers."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self._door.target), self.bucket, self._access_key],
                cwd=_ROOT,
                env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "S3_UPLOAD_PART_MIN_SIZE": "5242880"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            assert self._process.stdout is not None
            assert self._process.stdout.readline(), "S3 did not start"
        self._door.heal()
        self.lives = True

    def kill(self) -> None:
        """Make it unreachable, as if its machine had lost power."""
        self._door.refuse()
        self.lives = False

    def clear(self) -> None:
        """Delete all objects and uploads."""
        asked = urllib.request.Request(  # noqa: S310 - http, to this machine
            self.endpoint + _CLEAR, method="POST", headers={"Authorization": f"Credential={self._access_key}/"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=_PATIENCE_SECONDS):
            pass

    def close(self) -> None:
        """Stop it for good."""
        self._door.close()
        if self._process is not None:
            with self._process as process:
                process.kill()
        self._process, self.lives = None, False


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3]:
    with S3() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3) -> S3:
    """The object store of this worker, emptied."""
    s3_server.start()
    s3_server.clear()
    return s3_server


# ------------------------------------------------------------------- the program


class Application:
    """moto's S3 with one bucket, and one key that is let in; of conditional puts at the same key one wins."""

    def __init__(self, bucket: str, access_key: str) -> None:
        from moto.moto_server.werkzeug_app import create_backend_app

        self._bucket, self._access_key = bucket, access_key
        self._lock = threading.Lock()
        self._s3 = create_backend_app("s3")
        self._clear()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        if len(body) < length:  # the client was cut off
            start_response("400 Bad Request", [("Content-Length", "0")])
            return []
        if f"Credential={self._access_key}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [_REFUSED]
        with self._lock:
            if environ["PATH_INFO"] == _CLEAR:
                self._clear()
                start_response("204 No Content", [])
                return []
            return list(self._s3({**environ, "wsgi.input": io.BytesIO(body)}, start_response))

    def _clear(self) -> None:
        from moto.s3 import models
        from werkzeug.test import Client

        for regions in models.s3_backends.values():
            for backend in regions.values():
                backend.reset()
        made = Client(self._s3).put(f"/{self._bucket}", base_url="http://127.0.0.1")
        assert made.status_code == 200, made.text


def _serve(port: int, bucket: str, access_key: str) -> None:
    """Serve until the process ends; say a line on stdout when it answers."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    class Handler(MotoRequestHandler):
        disable_nagle_algorithm = True

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    application = Application(bucket, access_key)
    server = make_server("127.0.0.1", port, application, threaded=True, request_handler=Handler)
    print("it answers", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), *sys.argv[2:])
