"""A workspace, a service that does what the scheduler says, and time: weeks of it in a moment."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from daemon.engine.schedule import Action, Decision, History, Pending, Thresholds, due
from state.dream import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 3, 27, 9, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
TICK = timedelta(seconds=30)
USUAL = Thresholds()
NEW = History(awake_since=START, schema=False)
# Of these, the dream itself wants one new note; of the others, min_chunks.
ENOUGH_IS_ONE = {Reason.SESSION_END, Reason.FIRST_BREATH, Reason.FLOOR, Reason.PRESSURE}


@dataclass
class World:
    """A workspace, a service that does what `due` says, and a clock that may be set.

    `real` is the time that truly passed; the clock shows `real + set_by`. `careful` services notice a clock that was
    set back and begin to watch anew. `endings` say how the next dreams end, `always` the others.
    """

    endings: list[str] = field(default_factory=list)
    always: str = "committed"
    careful: bool = True
    history: History = NEW
    thresholds: Thresholds = USUAL
    real: datetime = START
    set_by: timedelta = timedelta(0)
    notes: list[tuple[datetime, datetime, int]] = field(default_factory=list)  # real time, stamp, characters
    crystals: int = 0
    unread: int = 0
    changed: bool = False
    session_ended: datetime | None = None
    spike_until: datetime = START
    acts: list[tuple[datetime, Decision]] = field(default_factory=list)
    most: int = 10**9  # notes that one dream takes in
    held_at_dreams: list[bool] = field(default_factory=list)
    last_set: datetime = START
    is_left: bool = False

    @property
    def now(self) -> datetime:
        return self.real + self.set_by

    @property
    def pending(self) -> Pending:
        sizes = [size for _, _, size in self.notes]
        return Pending(
            notes=len(self.notes),
            characters=sum(sizes),
            bytes=sum(sizes),
            new=len(self.notes) + self.crystals,
            left=bool(self.notes) and self.is_left,
            oldest=min((stamp for _, stamp, _ in self.notes), default=None),
            latest=max((stamp for _, stamp, _ in self.notes), default=None),
            session_ended=self.session_ended,
            changed=self.changed,
            dopamine=0.9 if self.real < self.spike_until else 0.2,
        )

    def ask(self) -> Decision:
        return due(self.now, self.history, self.pending, self.thresholds)

    def act(self) -> Decision:
        """Everything that is due at this moment, as the service does it; then the answer is to wait."""
        done = []
        while (one := self.ask()).action is not Action.WAIT:
            assert one.at == self.now
            assert (one.action, one.reason) not in done, "the same again, at the same moment"
            done.append((one.action, one.reason))
            self.acts.append((self.real, one))
            {Action.DREAM: self._dream, Action.PASS: self._pass, Action.SKIP: self._skip}[one.action](one)
        assert one.at > self.now
        return one

    def _skip(self, one: Decision) -> None:
        assert one.detail.endswith(" wanted")
        self.history = replace(self.history, last_look=self.now)

    def _pass(self, one: Decision) -> None:
        spike = self.now if one.reason is Reason.SPIKE else self.history.last_spike_pass
        self.history = replace(self.history, last_pass=self.now, last_spike_pass=spike)
        self.crystals, self.unread, self.changed = self.crystals + self.unread, 0, False

    def _dream(self, one: Decision) -> None:
        assert self.pending.new >= (1 if one.reason in ENOUGH_IS_ONE else self.thresholds.min_chunks)
        ceiling = self.history.ceiling_until
        self.held_at_dreams.append(ceiling is not None and self.now < ceiling)
        ending = self.endings.pop() if self.endings else self.always
        before = self.history
        self.history = replace(before, last_look=self.now, last_dream=self.now)
        match ending:
            case "nothing":  # the dream found less than the scheduler thought, and was skipped
                self.history = replace(before, last_look=self.now)
            case "failed" | "ceiling":
                midnight = self.now.replace(hour=0, minute=0, second=0, microsecond=0) + DAY
                until = midnight if ending == "ceiling" else before.ceiling_until
                failures = before.failures + 1
                self.history = replace(self.history, failures=failures, failed_at=self.now, ceiling_until=until)
            case "stuck":  # it committed, and all is as if it had not
                self.history = replace(self.history, failures=0)
            case _:
                self.history = replace(self.history, failures=0, schema=True)
                self._consume()

    def _consume(self) -> None:
        self.notes, self.is_left = self.notes[self.most :], len(self.notes) > self.most
        self.crystals, self.unread, self.changed, self.session_ended = 0, 0, False, None

    def run(self, length: timedelta) -> None:
        """Let this time pass, asking whenever the last answer said so."""
        end = self.real + length
        while True:
            waiting = self.act()
            self.check()
            if waiting.at - self.set_by > end:
                break
            self.real = waiting.at - self.set_by
        self.real = end

    def tick(self, length: timedelta) -> None:
        """Let this time pass, asking at every tick."""
        end = self.real + length
        while self.real < end:
            self.act()
            self.real += TICK

    def check(self) -> None:
        """No note waits longer than a day, unless a dream has just failed or must not be."""
        ceiling, failed = self.history.ceiling_until, self.history.failed_at
        if self.always != "committed" or (ceiling is not None and self.now < ceiling):
            return
        if self.history.failures and failed is not None and self.now < failed + self.thresholds.interval:
            return
        limit = DAY if self.last_set == START else 2 * DAY
        begun = self.history.last_dream
        pausing = timedelta(0) if begun is None or self.now >= begun + USUAL.pause else USUAL.pause
        for arrived, _, _ in self.notes:
            assert self.real - max(arrived, self.last_set) <= limit + pausing

    def note(self, size: int = 80) -> None:
        self.notes.append((self.real, self.now, size))
        self.changed = True

    def burst(self, notes: int) -> None:
        for _ in range(notes):
            self.note()

    def transcript(self, turns: int) -> None:
        self.unread, self.changed = self.unread + turns, True

    def sleep(self, length: timedelta) -> None:
        self.real += length
        self.history = replace(self.history, awake_since=self.now)

    def end_session(self) -> None:
        self.session_ended = self.now

    def spike(self, length: timedelta) -> None:
        self.spike_until = self.real + length

    def happen(self, kind: str, figure: float) -> None:
        """One event, by name."""
        events: dict[str, Callable[[], None]] = {
            "note": lambda: self.note(int(figure)),
            "burst": lambda: self.burst(int(figure)),
            "transcript": lambda: self.transcript(int(figure)),
            "session end": self.end_session,
            "spike": lambda: self.spike(figure * MINUTE),
            "sleep": lambda: self.sleep(figure * MINUTE),
            "clock": lambda: self.set_clock(figure * MINUTE),
        }
        events[kind]()

    def set_clock(self, by: timedelta) -> None:
        self.set_by += by
        self.last_set = self.real
        if self.careful or by > timedelta(0):  # forward it looks like sleep
            self.history = replace(self.history, awake_since=self.now)

    def did(self, act: Action) -> list[datetime]:
        return [when for when, one in self.acts if one.action is act]

    def spike_passes(self) -> list[datetime]:
        return [when for when, one in self.acts if one.reason is Reason.SPIKE]
