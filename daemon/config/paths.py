"""Paths: where the daemon keeps its socket, token and ledger of spending, and how to run it.

Imports very little, because `dreamd status` needs this module first.
"""

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from state.errors import ConfigError, StorageError
from state.stores.disk import user_folder
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import is_linux, storage_errors

MIN_TOKEN_CHARACTERS = 16
_TOKEN_BYTES = 32
_LONGEST_TOKEN_FILE = 4096
# System folders, which are nobody's project; a folder below most of them may be one.
_OF_THE_SYSTEM = frozenset(
    "/ /bin /boot /dev /dev/shm /etc /home /lib /lib64 /media /mnt /opt /proc /root /run /run/user /sbin /srv /sys"
    " /tmp /usr /usr/local /usr/share /var /var/lib /var/tmp"
    " /Applications /Library /System /Users /Volumes /private /private/etc /private/tmp /private/var"
    " /private/var/tmp".split()
)


state_folder = user_folder.state_folder
data_folder = user_folder.data_folder
home = user_folder.home
make_private_folder = user_folder.make_private_folder


def socket_path(environment: Mapping[str, str]) -> Path:
    """Return $DREAMD_SOCKET, else dreamd/dreamd.sock in $XDG_RUNTIME_DIR (/run/user/UID), else in the state folder.

    Raise ConfigError for a relative $DREAMD_SOCKET. No daemon can listen at a path that is too long for a socket.
    """
    named = environment.get("DREAMD_SOCKET", "")
    if named and not named.startswith("/"):
        raise ConfigError(f"DREAMD_SOCKET is {named!r}, and every folder would have its own", "give an absolute path")
    return Path(named) if named else _usual_socket(environment)


def fits_socket(path: Path) -> bool:
    """Return whether the kernel takes a socket with this path."""
    return len(os.fsencode(path)) <= max_socket_bytes()


def max_socket_bytes() -> int:
    """Return the longest path of a socket: sun_path of unix(7) without its NUL."""
    return 107 if is_linux() else 103


def has_socket(path: Path) -> bool:
    """Return whether there is a file where a daemon may listen."""
    return fits_socket(path) and path.exists()


def _usual_socket(environment: Mapping[str, str]) -> Path:
    # Agents start MCP servers with few variables: without the fallback those would look in the state folder.
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    if runtime.startswith("/") and os.path.isdir(runtime):  # noqa: PTH112 - Path.is_dir may raise here
        return Path(runtime) / "dreamd" / "dreamd.sock"
    return state_folder(environment) / "dreamd.sock"


def global_root(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's global workspace: dreamd/global in $XDG_DATA_HOME, else in ~/.local/share."""
    return data_folder(environment) / "global"


def is_global(root: Path, environment: Mapping[str, str]) -> bool:
    """Return whether this is the folder of the user's global workspace."""
    with suppress(ConfigError):
        return str(root) == os.path.realpath(global_root(environment))
    return False


def is_everybodys(folder: Path, environment: Mapping[str, str]) -> bool:
    """Return whether a folder cannot be one project: the home folder, a parent of it, or a system folder."""
    real = os.path.realpath(folder)
    if real in _OF_THE_SYSTEM:
        return True
    with suppress(ConfigError):
        own = os.path.realpath(home(environment))
        return own == real or own.startswith(f"{real}/")
    return False


def spent_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder that records the model spend of all workspaces together."""
    return state_folder(environment) / "spent"


def allow_path(environment: Mapping[str, str]) -> Path:
    """Return the file of texts given to `dreamd secrets allow`; no workspace contains it."""
    return state_folder(environment) / "allowed.json"


def allowed(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts in `allow_path`; none without a file. Raise ConfigError if it is not a list of texts."""
    path = allow_path(environment)
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    import json

    try:
        texts = json.loads(content)
    except ValueError:
        texts = None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{path} is no list of texts", "move it away, and 'dreamd secrets allow' makes a new one")
    return tuple(texts)


def token_path(environment: Mapping[str, str]) -> Path:
    """Return the file of the token that HTTP over TCP requires."""
    return state_folder(environment) / "token"


def logins_path(environment: Mapping[str, str]) -> Path:
    """Return the file that lists logged-in browsers."""
    return state_folder(environment) / "logins.json"


def service_command(verb: str) -> str:
    """Return the command of systemd or launchd for a `verb`, status or restart, of the service."""
    if is_linux():
        return f"systemctl --user {verb} dreamd"
    return f"launchctl {'print' if verb == 'status' else 'kickstart -k'} gui/{os.getuid()}/dreamd"


def program() -> tuple[str, ...]:
    """Return the command that runs this dreamd: the script beside its Python, else `python -P -m daemon`.

    Agents run it in a project's folder; -P keeps Python from importing modules from there.
    """
    script = Path(sys.prefix) / "bin" / "dreamd"
    return (str(script),) if os.access(script, os.X_OK) else (sys.executable, "-P", "-m", "daemon")


def token(environment: Mapping[str, str]) -> str:
    """Return $DREAMD_TOKEN, else the token file's, created if missing. Raise ConfigError, StorageError."""
    named = environment.get("DREAMD_TOKEN")
    if named is not None:
        return _usable(named, "DREAMD_TOKEN", "unset it, or set a longer one")
    return read_or_make_token(token_path(environment))


def read_or_make_token(path: Path) -> str:
    """Return the token in the file; without a file, create one of 32 random bytes that only its owner can read.

    Concurrent processes agree on one token and never read half of it. Raise StorageError for a file that others can
    read, ConfigError for one without a usable token.
    """
    make_private_folder(path.parent)
    if not path.exists():
        from base64 import urlsafe_b64encode

        new = urlsafe_b64encode(os.urandom(_TOKEN_BYTES)).rstrip(b"=")
        with suppress(FileExistsError):  # another process was faster; use its token
            Disk(path.parent).write_new(path, new + b"\n")
    content = _read_private(path)
    return _usable(content.decode("utf-8", "replace").strip(), str(path), "remove it, and a new one is made")


def _read_private(path: Path) -> bytes:
    with storage_errors(path):
        # Without O_NONBLOCK, opening a FIFO of this name would block.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{path} is no regular file, and the token is read from it", "move it away")
            if status.st_mode & 0o077:
                raise StorageError(f"{path}: others can read this token", f"run: rm '{path}' (a new one is made)")
            if status.st_uid != os.geteuid() and os.geteuid() != 0:
                raise StorageError(f"{path}: this token belongs to another user", "move it away")
            return os.read(fd, _LONGEST_TOKEN_FILE)
        finally:
            os.close(fd)


def _usable(value: str, origin: str, advice: str) -> str:
    if len(value) < MIN_TOKEN_CHARACTERS:
        raise ConfigError(
            f"{origin}: the token has {len(value)} characters and needs {MIN_TOKEN_CHARACTERS} or more", advice
        )
    # An HTTP header carries it, as one word.
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ConfigError(f"{origin}: the token is not one word of plain ASCII characters", advice)
    return value
