"""What a browser loads: few files, those of others as they were published, each under an address that never lies."""

from hashlib import sha256

import pytest

from daemon.pages.window import static_address, static_files
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import Browser

# As published: htmx.org 4.0.1, dist/htmx.min.js and dist/ext/hx-sse.min.js.
PUBLISHED = {
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}


def test_files_of_others_are_as_published() -> None:
    assert {name: sha256(static_files()[name].content).hexdigest() for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("name", sorted(static_files()))
def test_each_is_there_before_one_is_logged_in_and_kept_by_the_browser(served: Running, name: str) -> None:
    answer = Browser(served).get(static_address() + name)
    assert answer.body == static_files()[name].content
    assert answer.headers["Content-Type"].startswith(static_files()[name].kind)
    assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.parametrize(
    "name", ["", "htmx.LICENSE", "..%2fwindow.py", "%2e%2e/window.py", "window.py", "style.css/x"]
)
def test_nothing_else_is(served: Running, name: str) -> None:
    assert Browser(served).get(static_address() + name).status in {401, 404}
