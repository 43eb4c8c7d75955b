"""A server that speaks S3 (moto's) and forgets nothing that it acknowledged: the program behind `tests.support.s3`.

Each request that changes something is written to a log before its answer goes out; a server that starts asks itself
all of them again, with their times and numbers. One request is answered at a time, so that of conditional puts at the
same key one wins. It ends with whoever holds the other end of its stdin.
"""

import io
import json
import os
import shutil
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from moto.s3 import models
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app

CLEAR = "/-/clear"  # no bucket has such a name
_CHANGES = {"PUT", "POST", "DELETE"}
_HEAD = struct.Struct(">III")  # the lengths of a request's head and body, and the checksum of both
_REFUSED = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code><Message>The AWS access key Id you'
    b" provided does not exist in our records.</Message></Error>"
)


class Log:
    """What was asked and done, in order, in a file. A record that was not written to its end was not acknowledged."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b", buffering=0)

    @property
    def end(self) -> int:
        return self._file.seek(0, os.SEEK_END)

    def append(self, head: dict[str, str], body: bytes) -> None:
        packed = json.dumps(head).encode()
        record = _HEAD.pack(len(packed), len(body), zlib.crc32(packed + body)) + packed + body
        left = memoryview(record)
        while left:
            left = left[self._file.write(left) :]

    def records(self) -> Iterator[tuple[int, dict[str, str], bytes]]:
        """Where each begins, its head and body; what is no whole record is cut off."""
        begins = 0
        with Path(self._file.name).open("rb") as read:
            while record := _record(read):
                head, body, size = record
                yield begins, head, body
                begins += size
        self._file.truncate(begins)

    def clear(self) -> None:
        self._file.truncate(0)


class Store:
    """The application: moto's S3 with one bucket, a log, and one key that is let in."""

    def __init__(self, log: Log, bucket: str, access_key: str) -> None:
        self._log, self._bucket, self._access_key = log, bucket, access_key
        self._lock = threading.Lock()
        self._s3 = create_backend_app("s3")
        self._now, self._number = datetime.now(UTC), 0
        self._determine()
        self._create_bucket()
        for begins, head, body in log.records():
            self._now, self._number = datetime.fromisoformat(head["tests.now"]), begins
            self._ask(head, body)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        if len(body) < length:  # the client was cut off
            start_response("400 Bad Request", [("Content-Length", "0")])
            return []
        if f"Credential={self._access_key}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            start_response(
                "403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", f"{len(_REFUSED)}")]
            )
            return [_REFUSED]
        head = {name: value for name, value in environ.items() if isinstance(value, str)}
        with self._lock:
            if head["PATH_INFO"] == CLEAR:
                self._clear()
                start_response("204 No Content", [])
                return []
            self._now, self._number = datetime.now(UTC), self._log.end
            status, headers, said = self._ask(head, body)
            if head["REQUEST_METHOD"] in _CHANGES and status.startswith("2"):
                self._log.append({**head, "tests.now": self._now.isoformat()}, body)
        start_response(status, headers)
        return [said]

    def _ask(self, head: dict[str, str], body: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
        streams = {"wsgi.input": io.BytesIO(body), "wsgi.errors": sys.stderr, "wsgi.version": (1, 0)}
        flags = {"wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False}
        said, status, headers = run_wsgi_app(self._s3, head | streams | flags, buffered=True)
        return status, list(headers), b"".join(said)

    def _determine(self) -> None:
        """Times and the numbers of uploads are those of the request's place in the log: the same each time."""
        made = models.FakeMultipart.__init__

        def numbered(upload: Any, *given: Any, **named: Any) -> None:
            made(upload, *given, **named)
            upload.id = sha256(str(self._number).encode()).hexdigest()

        vars(models)["utcnow"] = lambda: self._now.replace(tzinfo=None)
        setattr(models.FakeMultipart, "__init__", numbered)  # noqa: B010 - it is another's

    def _create_bucket(self) -> None:
        head = {
            "REQUEST_METHOD": "PUT",
            "SCRIPT_NAME": "",
            "PATH_INFO": f"/{self._bucket}",
            "QUERY_STRING": "",
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": "127.0.0.1",
            "wsgi.url_scheme": "http",
        }
        status, _, said = self._ask(head, b"")
        assert status.startswith("200"), said

    def _clear(self) -> None:
        for regions in models.s3_backends.values():
            for backend in regions.values():
                backend.reset()
        self._create_bucket()
        self._log.clear()


class _Handler(MotoRequestHandler):
    disable_nagle_algorithm = True

    def log_request(self, code: object = "-", size: object = "-") -> None:
        pass


def _record(read: IO[bytes]) -> tuple[dict[str, str], bytes, int] | None:
    lengths = read.read(_HEAD.size)
    if len(lengths) < _HEAD.size:
        return None
    head, body, checksum = _HEAD.unpack(lengths)
    both = read.read(head + body)
    if len(both) < head + body or zlib.crc32(both) != checksum:
        return None
    return json.loads(both[:head]), both[head:], _HEAD.size + head + body


def _end_with_parent(folder: Path) -> None:
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def serve(folder: Path, port: int, bucket: str, access_key: str) -> None:
    """Serve until the process ends; says a line on stdout when it answers."""
    threading.Thread(target=_end_with_parent, args=[folder], daemon=True).start()
    store = Store(Log(folder / "log"), bucket, access_key)
    server = make_server("127.0.0.1", port, store, threaded=True, request_handler=_Handler)
    print("it answers", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
