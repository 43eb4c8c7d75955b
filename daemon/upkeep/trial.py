"""Trial: asks a model one short question, within the ceilings, and says how that went.

    this process ── request ──> dreamd config --given N     counts the most that it may cost
                 <── Spend ────
                 ── go on ────>                             asks the model
                 <── Answer, or Failed ──

The model is asked by a process that ends with the answer, since litellm's memory would stay in a daemon. The ceilings
are checked, and the call is in the ledger, before it is made.
"""

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from threading import Thread

from daemon.config.beside import start_beside
from daemon.config.settings import Config
from daemon.dream.model import Metered, priced_model
from daemon.models import command
from daemon.models.choices import Tried
from daemon.models.errors import UnusableReplyError
from daemon.workspace.stores import Store, utc_now
from graphs.ports import Answer, Request
from prompts import load, render
from state.budget import Spend
from state.errors import DreamdError, ModelError

_START_SECONDS = 60.0
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no answer; `answer` has what the try may have cost."""

    what: str
    advice: str
    answer: Answer | None = None


# ---------------------------------------------------------------- the process that asks for it


def ask_once(store: Store, config: Config) -> Tried:
    """Ask the model of this configuration once; the stores' ledger is charged. Nothing is raised that it may say."""
    name = config.model.name or ""
    shown = config.redaction.of(name)
    ours, theirs = Pipe()
    with ours:
        with theirs:
            process = start_beside(["config", "--given", str(theirs.fileno())], (theirs.fileno(),))
        beside = _ModelBeside(shown, ours, config.model.timeout_seconds + _START_SECONDS)
        try:
            ours.send(config)
            asked = Metered(beside, config, store.ledger, f"trial-{utc_now():%Y%m%dT%H%M%S%f}", tries=1)
            answer = asked.ask(Request(tuple(zip(("system", "user"), render(load("trial"), {}), strict=True))))
        except ModelError as error:
            return Tried(shown, problem=error.what, advice=error.advice)
        except (OSError, EOFError):  # a call that was begun stays in the ledger, with the most that it may cost
            return Tried(shown, problem="the process that asks the model ended", advice="try again")
        finally:
            ours.close()  # it ends by itself
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            process.kill()
    said = config.redaction.of(" ".join(answer.text.split()))[:_LONGEST]
    return Tried(shown, said, answer.seconds, answer.tokens_in + answer.tokens_out, answer.usd)


@dataclass(eq=False)
class _ModelBeside:
    """The model in the other process, which ends with this one's end of the wire."""

    name: str
    wire: Connection
    seconds: float
    context_window: int = 0

    def worst_case(self, request: Request) -> Spend:
        self.wire.send(request)
        most = self._heard()
        assert isinstance(most, Spend)
        return most

    def ask(self, _: Request) -> Answer:
        self.wire.send("go on")
        answer = self._heard()
        assert isinstance(answer, Answer)
        return answer

    def _heard(self) -> object:
        if not self.wire.poll(self.seconds):  # it has a time limit of its own, and hangs
            raise EOFError
        said = self.wire.recv()
        if isinstance(said, Failed):
            failed = ModelError(said.what, said.advice)
            raise failed if said.answer is None else UnusableReplyError(said.what, said.advice, said.answer)
        return said


# ---------------------------------------------------------------- the process that asks the model


def answer_given(fd: int) -> int:
    """Ask the model that the parent describes over this inherited descriptor; end with the parent."""
    wire = Connection(fd)
    try:
        config: Config = wire.recv()
        request: Request = wire.recv()
        wire.send(_tried(lambda: priced_model(config, config.model.name or "").worst_case(request)))
        wire.recv()
    except EOFError:  # a ceiling forbids it
        return 0
    Thread(target=_end_with_parent, args=(wire,), daemon=True).start()
    with suppress(BrokenPipeError):
        wire.send(_tried(lambda: priced_model(config, config.model.name or "").ask(request)))
    return 0


def _tried(ask: Callable[[], Spend | Answer]) -> Spend | Answer | Failed:
    try:
        return ask()
    except DreamdError as error:
        return Failed(error.what, error.advice, getattr(error, "answer", None))


def _end_with_parent(wire: Connection) -> None:
    with suppress(EOFError, OSError):
        wire.recv()
    command.end_all()
    os._exit(1)
