"""One run: a workspace of its own, everybody who does something to it, and what they were told."""

import hashlib
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from state.document.document import parse
from state.document.sections import SectionName
from state.stores.disk.workspace import Workspace
from tests.chaos.harm import NONE, Blow, Harm
from tests.support import lived
from tests.support.copies import copy_of
from tests.support.forked import Forked
from tests.support.notes import marked
from tests.support.running import ROOT
from tests.support.scripted_model import Script, ScriptedModel
from tests.support.serving import PATIENCE_SECONDS, Home

# How dreamd's own notes about its hormones begin.
HORMONAL = "Hormonal event: "
# Without an embedding model a life is quicker; the search is by words then.
WORDS_ONLY = {"XDG_CACHE_HOME": "/proc/nowhere"}
# A real dream changes the disk 400 to 900 times, one with nothing to do 30 times, a restore 140 times, a note thrice.
CHANGES = {"dream": 800, "restore": 150, "ingest": 60, "note": 4, "feel": 12, "doctor": 20, "init": 12, "search": 20}

_PAUSE_SECONDS = 0.003

Variables = Mapping[str, str]


class LostError(AssertionError):
    """Something that must be so is not."""


def demand(holds: object, what: str) -> None:
    if not holds:
        raise LostError(what)


@dataclass(frozen=True, slots=True)
class Life:
    """How a process ended: its exit status (-9: killed) and what it said on stdout and stderr."""

    words: tuple[str, ...]
    harm: Harm
    status: int
    said: str

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL

    def __str__(self) -> str:
        return f"dreamd {' '.join(self.words)} ({self.harm}) ended with {self.status}: {self.said[-1500:]}"


@dataclass(frozen=True, slots=True)
class Running:
    words: tuple[str, ...]
    harm: Harm
    process: Forked[bytes]
    said: Path

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    @property
    def is_stopped(self) -> bool:
        return self.process.is_stopped

    def ended(self) -> Life:
        """Its end, waited for; one that does not end is an error, whatever was done to it."""
        try:
            status = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise LostError(f"dreamd {' '.join(self.words)} ({self.harm}) does not end") from None
        return Life(self.words, self.harm, status, self.said.read_text(encoding="utf-8", errors="replace"))


@dataclass(slots=True)
class Tally:
    kills: int = 0
    lives: int = 0
    faults: int = 0  # calls that failed, files that were spoilt, stops, edits: whatever else befell it


@dataclass(slots=True)
class Trial:
    """The run of this folder: `home` is whose daemon and configuration, `workspace` what everything happens to."""

    rng: random.Random
    folder: Path
    home: Home
    workspace: Workspace
    facts: tuple[str, ...]
    tally: Tally = field(default_factory=Tally)
    tried: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)  # of a session, acknowledged
    by_hand: list[str] = field(default_factory=list)  # texts of MEMORY.md that a human saved
    spoilt: set[str] = field(default_factory=set)  # notes that were damaged on the disk: in words of their own now
    environment: dict[str, str] = field(default_factory=dict)
    # What the ordeal did that changes what may be expected of it.
    torn: bool = False  # pieces of notes that were never acknowledged may be there
    rewound: bool = False  # state.db was lost and read again from the rest
    # So many more may find something to do at the end: the first one may go on with a killed one.
    most_dreams: int = 1
    diary: list[str] = field(default_factory=list)

    def wrote(self, what: object) -> None:
        """Into the diary of the run, which is shown when it fails."""
        self.diary.append(f"{time.strftime('%H:%M:%S')} {what}")

    def texts(self, count: int) -> list[str]:
        """So many notes, each like no other."""
        first = len(self.tried) + 1
        made = [marked(number) for number in range(first, first + count)]
        self.tried += made
        return made

    def took(self, *texts: str) -> None:
        self.acknowledged += texts

    def append(self, count: int = 1) -> None:
        """Notes by a plain `>>`: in the file is acknowledged."""
        for text in self.texts(count):
            with self.workspace.scratch.open("a", encoding="utf-8") as log:
                log.write(f"- {text}\n")
            self.took(text)

    def note(self, harm: Harm = NONE) -> Life:
        """One note by the command; acknowledged when it says so."""
        (text,) = self.texts(1)
        life = self.dreamd("note", "-w", self.workspace.root, text, harm=harm)
        if life.status == 0:
            self.took(text)
        elif harm.blow in (Blow.TORN, Blow.KILL):
            self.torn = True
        return life

    def dream(self, harm: Harm = NONE, variables: Variables | None = None) -> Life:
        return self.dreamd("dream", self.workspace.root, harm=harm, variables=variables)

    def harm(self, command: str, *blows: Blow, lasting: bool | None = None) -> Harm:
        """Harm at some change of the disk that this command makes."""
        blow = self.rng.choice(blows or (Blow.KILL, Blow.TORN))
        changes = CHANGES[command]
        # Half of them early, where every command passes; the rest anywhere.
        call = int(self.rng.random() ** self.rng.choice((1, 3)) * changes)
        return Harm(blow, call=call, lasting=self.rng.random() < 0.5 if lasting is None else lasting)

    def dreamd(self, *words: str | Path, harm: Harm = NONE, variables: Variables | None = None) -> Life:
        """One life, which must end in words."""
        with self.living(*words, harm=harm, variables=variables) as one:
            return self.ended(one)

    @contextmanager
    def living(
        self, *words: str | Path, harm: Harm = NONE, piped: bool = False, variables: Variables | None = None
    ) -> Iterator[Running]:
        """The same, to be watched while it lives. `piped`: its stdin and stdout are those of `process`."""
        self.tally.lives += 1
        spoken, said = tuple(map(str, words)), self.folder / "said" / f"{self.tally.lives:03d}"
        with said.open("ab") as out:
            process: Forked[bytes] = Forked(
                spoken,
                before=("tests.chaos.harm:suffer", [asdict(harm)]),
                bufsize=0,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else out,
                stderr=out,
                cwd=ROOT,
                env=self.home.environment(**self.environment, **(variables or {})),
            )
        with process:
            try:
                yield Running(spoken, harm, process, said)
            finally:
                process.kill()

    def ended(self, one: Running) -> Life:
        """How it ended: in words, whatever befell it."""
        life = one.ended()
        self.tally.kills += life.killed
        self.tally.faults += life.harm.blow in (Blow.EIO, Blow.ENOSPC) and life.status not in (0, 3)
        self.wrote(f"{' '.join(life.words)} ({life.harm}) -> {life.status}")
        for never in ("Traceback", "a defect", "Fatal Python error"):
            if never in life.said:
                raise LostError(f"{never!r}: {life}")
        spoken = "dreamd: " in life.said or "problem " in life.said  # the doctor's finding
        if life.status not in (0, 3, -signal.SIGKILL) and not spoken:
            raise LostError(f"it failed without a word: {life}")
        return life

    def rounds(self, times: tuple[int, int], notes: tuple[int, int]) -> Iterator[None]:
        """So many rounds, each with news first and a look at its end, while somebody reads MEMORY.md."""
        with self.reading():
            for _ in range(self.rng.randint(*times)):
                self.append(self.rng.randint(*notes))
                yield
                self.remember()

    def killed_at_random(self, *words: str | Path, seconds: float) -> Life:
        """A life that is killed after some time, or ends before."""
        with self.living(*words) as one:
            with suppress(subprocess.TimeoutExpired):
                one.process.wait(self.rng.uniform(0.0, seconds))
            one.process.kill()
            return self.ended(one)

    def remember(self) -> None:
        """At any moment: what was acknowledged is pending, or a crystal."""
        if not self.workspace.database.exists():
            known = set(lived.pending(self.workspace))
        else:
            known = lived.remembered(self.workspace)
        if self.torn:
            self._find_glued(known)
        gone = [text for text in self.acknowledged if text not in known and text not in self.spoilt]
        if gone:
            raise LostError(f"neither pending nor a crystal: {gone}")

    def _find_glued(self, known: set[str]) -> None:
        """A `>>` behind the torn line of a killed writer goes on in that line: its text is there, in another.

        dreamd's own writers begin a new line then; a plain `>>` cannot know.
        """
        for text in self.acknowledged:
            if text not in known and text not in self.spoilt:
                around = [one for one in known if one.endswith(f"- {text}")]
                self.spoilt |= {text, *around} if len(around) == 1 else set()

    def pieces(self, found: Counter[str]) -> list[str]:
        """The texts among these that are neither notes nor pieces of notes that were cut off."""
        known = {*self.tried, *self.facts, *self.spoilt}
        strange = [text for text in found if text not in known]
        return [
            text for text in strange if not text.startswith(HORMONAL) and not (self.torn and self._is_piece(text))
        ]

    def _is_piece(self, text: str) -> bool:
        stamp = text.lstrip("- ").startswith("[20") or text in {"-", "- [", "[", "[2", "# Scratch Buffer"}
        return stamp or any(one.startswith(text) for one in self.tried)

    @contextmanager
    def asking(self, script: Script) -> Iterator[ScriptedModel]:
        """Every dream asks this model, until the end of the block."""
        with ScriptedModel(script) as server:
            before = dict(self.environment)
            self.environment |= {"DREAMD_MODEL__NAME": "openai/gpt-4o-mini", "DREAMD_MODEL__API_BASE": server.url}
            try:
                yield server
            finally:
                self.environment = before

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Somebody reads MEMORY.md all the time: at every look it is a whole version, or what a human saved."""
        seen, ending, workspace = dict[str, str](), threading.Event(), self.workspace

        def look() -> None:
            with suppress(FileNotFoundError):
                content = workspace.document.read_bytes()
                seen.setdefault(_digest(content), content.decode("utf-8", "replace"))

        def read() -> None:
            while not ending.wait(_PAUSE_SECONDS):
                look()

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()
        look()
        # Where a human saves while a commit goes on, it is committed again with that save: of what stood there in
        # between it is only known that it is whole. A save in place is not whole for an instant.
        known = self.versions() | {_digest(text.encode()) for text in self.by_hand}
        for digest, text in seen.items():
            demand(digest in known or self.by_hand, f"MEMORY.md was seen to hold what is no version: {text[:3000]!r}")
            if not any(save.startswith(text) for save in self.by_hand):
                names = [part.name for part in parse(text).parts if part.name is not None]
                is_whole = names == list(SectionName) and text.endswith("\n")
                demand(is_whole, f"MEMORY.md was seen with the sections {names}: {text[:3000]!r}")

    def versions(self) -> set[str]:
        """The digests of every text that a version stands for or was made from."""
        return {_digest(row["text"].encode()) for row in lived.versions(self.workspace)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def prepared(origin: Path, folder: Path, rng: random.Random, facts: Sequence[str]) -> Trial:
    """A copy of the planted workspace, with a home around it."""
    for name in ("run", "config/dreamd", "said"):
        (folder / name).mkdir(parents=True, mode=0o700)
    home = Home(folder)
    home.configure(
        dream={"context_window": rng.choice((8_000, 200_000))},
        limits={"usd_per_day": 1e6, "tokens_per_day": 10**9},
        mcp={"toolsets": ["memory", "sessions"]},
    )
    copy = copy_of(origin, folder / "agent", home.environment())
    trial = Trial(rng, folder, home, copy, tuple(facts))
    if rng.random() < 0.75:
        trial.environment |= WORDS_ONLY
    return trial
