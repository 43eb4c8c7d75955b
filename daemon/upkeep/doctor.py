"""Doctor: checks a workspace and its environment; each finding says what was checked, the result, and what to do."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from daemon.config.beside import start_beside
from daemon.config.settings import Config
from daemon.models.headless import agent_of, offers
from daemon.models.known import KnownModel, look_up
from daemon.upkeep.examine import (
    REPAIR,
    RESCUE,
    SEE_DOCTOR,
    Finding,
    Level,
    advice_of,
    fine,
    problem,
    warning,
    watched,
)
from daemon.upkeep.repair import survey
from daemon.workspace.status import RESOLVE, TORN
from daemon.workspace.stores import folders
from state.codec import decode
from state.document.merge import is_conflicted
from state.errors import DreamdError, ModelError
from state.stores.disk.lock import present_holder
from state.stores.disk.syscalls import access_to
from state.stores.disk.workspace import Workspace
from state.stores.history.memory import displaced_files
from state.stores.history.notes import look
from state.stores.repair.check import WRONG_SCHEMA

LITTLE_DISK = 500 * 1024**2
NO_DISK = 50 * 1024**2
_LOOK_UP_SECONDS = 120.0  # to import litellm, on a busy machine with a cold disk


# What can be checked while the workspace is closed.
_CHECKED_CLOSED = ("state.db", "copies", "history", "notes", "checkpoints", "MEMORY.md")

Look = Callable[[], Iterable[Finding]]
LookUp = Callable[[str, str | None], KnownModel]


def examine(
    workspace: Workspace,
    configured: Callable[[], Config],
    service: Look,
    look: Look,
    look_up: LookUp = look_up,
) -> Iterator[Finding]:
    """Yield each finding as soon as it is made. Use no network.

    `configured` reads the configuration, `service` says whether a daemon runs and keeps the workspace, `look_up` is
    what litellm knows of a model, and `look` checks the stores. Opening the stores finishes an interrupted commit and
    rebuilds a torn index, which the findings report.
    """
    config, finding = _config(configured)
    yield finding
    yield _model(config, look_up)
    yield from _readable(service(), "service")
    told = set[str]()
    for finding in chain(_files(workspace), _broken(workspace, config)):
        if finding.about != "MEMORY.md" or finding.about not in told:  # once is enough
            yield finding
        told |= {finding.about} if finding.level is Level.PROBLEM else set()
    if "state.db" not in told:  # opening a damaged one could do further damage
        yield from (one for one in watched(look, workspace) if one.about != "MEMORY.md" or one.about not in told)
    yield from _readable(_notes(workspace), "notes")


def _broken(workspace: Workspace, config: Config) -> Iterator[Finding]:
    """Yield what a repair would mend while nobody has the workspace open; opening the stores finds the rest."""
    if present_holder(workspace) is not None:
        return
    try:
        repair = survey(workspace, config, lambda: None)
    except DreamdError as error:
        about = "state.db" if error.advice.endswith(SEE_DOCTOR) else "stores"
        yield problem(about, error.what, advice_of(error))
        return
    elsewhere = tuple(f"{path} is a symbolic link" for path in (workspace.document, workspace.scratch))
    yield from [one for one in repair.left if not one.what.startswith(elsewhere)]
    for mend in repair.mends:
        if mend.about in _CHECKED_CLOSED:
            advice = RESCUE if mend.about == "state.db" else REPAIR
            if WRONG_SCHEMA in mend.wrong:
                advice = f"if a newer dreamd wrote it, upgrade; else {REPAIR}"
            yield problem(mend.about, mend.wrong, advice)


def _config(configured: Callable[[], Config]) -> tuple[Config, Finding]:
    try:
        config = configured()
    except DreamdError as error:
        return Config(), problem("config", str(error), "the rest is checked with the defaults")
    return config, fine("config", f"valid ({config.file or 'defaults'} and DREAMD_… variables)")


def _model(config: Config, look_up: LookUp) -> Finding:
    name, agents = config.model.name, offers(config.limits.ceilings)
    if name is None:
        such = "".join(f", such as {offer.name} ({offer.costs})" for offer in agents)
        advice = f"set model.name for dreams that a model writes{such}"
        return Finding("model", Level.OK, "none configured: dreams are extractive", advice)
    if agent := agent_of(name):
        offer = next((one for one in agents if one.name == agent), None)
        if offer is None:
            advice = "install it, or set model.name otherwise: until then dreams are extractive"
            return problem("model", f"{name} is not installed here", advice)
        return fine("model", f"{name} is asked with {offer.program}: {offer.costs}")
    return _known(name, config.model.api_base, look_up)


def _known(name: str, api_base: str | None, look_up: LookUp) -> Finding:
    try:
        known = look_up(name, api_base)
    except DreamdError as error:
        return warning("model", f"not looked up: {error.what}", error.advice)
    missing = known.missing_keys
    if not known.provider:
        advice = "write model.name as provider/model, e.g. openai/gpt-5-mini"
        return problem("model", f"litellm knows no provider for {name!r}", advice)
    if missing and api_base is None:
        return problem("model", f"{name} wants a key", f"set {' and '.join(missing)} in the environment")
    if not known.priced:
        advice = "the ceilings in dollars do not bind it, those in tokens do"
        return warning("model", f"{name}: its price and context window are not known", advice)
    return fine("model", f"{name} is known" + ("" if missing else ", and so is its key"))


def _files(workspace: Workspace) -> Iterator[Finding]:
    mode = workspace.state.stat().st_mode & 0o777
    if mode & 0o077:
        what, advice = f"{workspace.state} is open to other users ({mode:o})", f"run 'chmod 700 {workspace.state}'"
        yield problem("permissions", what, advice)
    else:
        yield fine("permissions", f"{workspace.state} is open to its owner alone")
    free = shutil.disk_usage(workspace.root).free
    level = Level.PROBLEM if free < NO_DISK else Level.WARNING if free < LITTLE_DISK else Level.OK
    yield Finding("disk", level, f"{free / 1024**2:,.0f} MiB free", "" if level is Level.OK else "free some space")
    for folder in folders(workspace):
        if not os.path.lexists(folder):
            yield warning("folders", f"{folder} is missing", "it is made again as the workspace is opened")
        elif not folder.is_dir():
            yield problem("folders", f"{folder} is no folder", "move it away and run 'dreamd init'")
        elif not os.access(folder, os.W_OK | os.X_OK):
            yield problem("folders", f"{folder} is not writable by this user", access_to(folder))
    yield from _readable(_document(workspace), "MEMORY.md")


def _readable(findings: Iterable[Finding], about: str) -> Iterator[Finding]:
    """Yield the findings, and one more for an unreadable file."""
    try:
        yield from findings
    except DreamdError as error:
        advice = " or ".join(filter(None, (error.advice, REPAIR if about == "MEMORY.md" else "")))
        yield problem(about, error.what, advice)


def _document(workspace: Workspace) -> Iterator[Finding]:
    """Yield the length of MEMORY.md, and what prevents writing it; whether it is damaged is found by a repair."""
    content = workspace.disk().read_optional(workspace.document)
    text = (content or b"").decode(errors="replace")
    if is_conflicted(text):
        yield problem("MEMORY.md", TORN, RESOLVE)
        return
    yield fine("MEMORY.md", "not there yet" if content is None else f"{len(text):,} characters")
    if displaced_files(workspace) and present_holder(workspace) is None:
        what = "a commit was interrupted while it wrote MEMORY.md"
        yield warning("commit", what, "it is finished now, as the workspace is opened")


def _notes(workspace: Workspace) -> Iterator[Finding]:
    pending, scratch = look(workspace, lambda notes: notes.count()), workspace.scratch
    if scratch.exists() and not os.access(scratch, os.R_OK | os.W_OK):
        yield problem("notes", f"{scratch} is not writable by this user", access_to(scratch))
    else:
        yield fine("notes", f"{pending} pending")


def look_up_beside(name: str, api_base: str | None) -> KnownModel:
    """Look up the model in a short-lived process, so that this one stays small. Raise ModelError."""
    words = ["models", "--known", name, *(("--api-base", api_base) if api_base else ())]
    try:
        with start_beside(words, stdout=subprocess.PIPE) as process:
            try:
                said, _ = process.communicate(timeout=_LOOK_UP_SECONDS)
            finally:
                process.kill()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(f"{name} could not be looked up ({error})", "try again") from None
    if process.returncode:
        raise ModelError(f"{name} could not be looked up", f"see 'dreamd models --known {name}'")
    return decode(KnownModel, said, "what is known of a model")
