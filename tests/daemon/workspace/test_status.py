"""The status is true before the first dream, during one, and after a crash; and it changes nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, LimitsSection, ModelSection
from daemon.dream.consolidation import consolidate
from daemon.dream.run import Mode, dream_now
from daemon.workspace import stores
from daemon.workspace.checks import MOST_UNREAD
from daemon.workspace.status import NO_DAEMON, Problem, Status, status
from daemon.workspace.stores import follow_clock, open_exclusive, utc_now
from state.document.operations import Refusal
from state.dream import Reason
from state.errors import RejectedError, StorageError
from state.scratch import Note
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.history.ledger import Call
from state.stores.history.unread import UnreadTranscripts
from tests.support.model_characters import good, prose
from tests.support.running import ROOT
from tests.support.scripted_model import ScriptedModel


def noted(workspace: Workspace, text: str, age: timedelta = timedelta()) -> None:
    NoteInbox(workspace).append(Note(text, datetime.now(UTC) - age))


def now(workspace: Workspace, config: Config | None = None) -> Status:
    return status(workspace, config or Config(), datetime.now(UTC))


def what(workspace: Workspace) -> list[str]:
    return [problem.what for problem in now(workspace).problems]


def test_a_problem_is_told_as_its_error_has_it_whatever_the_path_looks_like() -> None:
    error = StorageError("/home/ada/a; b/state.db: no  regular file", "move it away; try again")
    assert Problem.of(error) == Problem("/home/ada/a; b/state.db: no regular file", "move it away; try again")
    assert str(Problem.of(error)) == "/home/ada/a; b/state.db: no regular file; move it away; try again"
    assert str(Problem.of(StorageError("it is so"))) == "it is so"


def test_a_workspace_that_has_never_dreamt_has_a_status_and_still_no_database(here: Workspace) -> None:
    noted(here, "Ada prefers tea", timedelta(minutes=5))
    value = now(here)
    assert (value.version, value.last_dream, value.next_dream) == (0, None, NO_DAEMON)
    assert value.pending.notes == 1
    assert 300 <= value.pending.oldest_seconds < 330
    assert value.problems == ()
    assert not here.database.exists()


def test_after_a_dream_it_names_version_and_author_and_counts_crystals(here: Workspace) -> None:
    noted(here, "Ada prefers tea")
    with open_exclusive(here, Config(), "test") as store:
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    noted(here, "and Ben coffee")
    value = now(here)
    assert value.last_dream is not None
    assert (value.version, value.last_dream.version, value.last_dream.outcome) == (1, 1, "committed")
    assert (value.last_dream.reason, value.last_dream.model) == ("manual", "extractive")
    assert value.pending.notes == 1
    assert value.crystals == {"consolidated": 1}
    assert value.characters == len(here.document.read_text())


def test_what_cannot_be_read_of_transcripts_is_named_until_it_is_mended_or_gone(here: Workspace) -> None:
    folder, line = here.root / "transcripts", b'{"role": "user", "content": "We sail in June"}\n'
    bad, packed, torn = folder / "bad.md", folder / "old.jsonl.zst", folder / "torn.jsonl"

    def named(at: datetime, **written: bytes) -> list[str]:
        folder.mkdir(exist_ok=True)
        for name, content in written.items():
            {"bad": bad, "packed": packed, "torn": torn}[name].write_bytes(content)
        with open_exclusive(here, Config(), "test") as store:
            consolidate(store, at)
        return [problem.what for problem in status(here, Config(), at).problems]

    today = datetime.now(UTC)
    first = named(today, bad=b"a\0", packed=b"no zstd", torn=line + b"{torn\n{torn\n" + line)
    assert [path.name in what for path, what in zip((torn, packed, bad), first, strict=True)] == [True] * 3
    assert first[0].startswith(f"{torn}:2: the record is not JSON")
    assert first[0].endswith("the line is skipped (1 more in this file)")
    assert first[1] == (
        f"{packed} cannot be unpacked: it is damaged, or no zstd file;"
        " restore it, or unpack what is left with 'zstd -d' and remove the .zst"
    )
    packed.unlink()
    assert named(today, bad=b"A text\n") == first[:1]
    assert named(today + timedelta(days=1)) == first[:1]
    assert named(today + timedelta(days=8)) == []


def test_of_many_transcripts_that_cannot_be_read_the_first_are_told(here: Workspace) -> None:
    with open_exclusive(here, Config(), "test") as store:
        for number in range(MOST_UNREAD + 3):
            path = here.root / f"{number}.md"
            path.touch()
            UnreadTranscripts(store.connection, here.root).unread(path, f"{path} is no transcript; move it away")
    told = now(here).problems
    assert len(told) == MOST_UNREAD + 1
    assert told[0] == Problem(f"{here.root}/{MOST_UNREAD + 2}.md is no transcript; move it away", stops=False)
    assert told[-1].what.startswith("3 more")


@pytest.fixture
def killed_owner(here: Workspace) -> Iterator[Workspace]:
    """A workspace whose owner was killed in a dream."""
    script = (
        "import sys, time; from pathlib import Path; from daemon.workspace.stores import open_exclusive, utc_now;"
        "from daemon.config.settings import Config; from daemon.workspace.adoption import open_workspace\n"
        "with open_exclusive(open_workspace(Path(sys.argv[1])), Config(), 'dreamd dream') as store:\n"
        "    store.ledger.begin('20260101T000000000000Z', 'manual', utc_now())\n"
        "    print('begun', flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", script, str(here.root)], stdout=subprocess.PIPE, cwd=ROOT)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"begun\n"
    yield here
    owner.kill()
    owner.communicate()


def test_a_dream_that_runs_is_shown_with_its_owner_and_one_that_was_killed_as_a_problem(
    killed_owner: Workspace,
) -> None:
    running = now(killed_owner)
    assert running.last_dream is not None
    assert running.last_dream.outcome == "running"
    assert running.holder is not None
    assert running.problems == ()
    os.kill(running.holder.pid, signal.SIGKILL)
    os.waitpid(running.holder.pid, 0)
    assert killed_owner.lock.read_bytes() != b""
    assert now(killed_owner).holder is None
    assert what(killed_owner) == ["a dream was interrupted"]


def test_spend_is_counted_since_midnight_and_opens_the_breaker(here: Workspace) -> None:
    with open_exclusive(here, Config(), "test") as store:
        store.ledger.record_call("d1", Call("x", "openai/m", "{}", usable=True, tokens=900, usd=0.25), utc_now())
        store.ledger.record_call(
            "d0", Call("x", "openai/m", "{}", usable=True, tokens=9, usd=9.0), utc_now() - timedelta(days=1)
        )
    calm = now(here).spending
    assert (calm.calls, calm.tokens, calm.usd, calm.breaker) == (1, 900, 0.25, "")
    assert "usd_per_day" in now(here, Config(limits=LimitsSection(usd_per_day=0.25))).spending.breaker
    assert "tokens_per_day" in now(here, Config(limits=LimitsSection(tokens_per_day=900))).spending.breaker


def test_a_line_that_a_full_disk_tore_off_counts_nothing_of_the_day(
    here: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    folder = spent_folder(os.environ)
    folder.mkdir(parents=True)
    (folder / f"{utc_now():%Y-%m-%d}").write_text("900 0.250000000\n12345 9.0")
    assert now(here).spending.all_tokens == 900


def test_a_dream_that_stopped_at_a_ceiling_has_opened_the_breaker(here: Workspace) -> None:
    with open_exclusive(here, Config(), "test") as store:
        store.ledger.begin("d1", "manual", utc_now())
        store.ledger.end("d1", "failed", "CEILING: limits.usd_per_dream: too dear", utc_now())
    assert now(here).spending.breaker == "limits.usd_per_dream: too dear"


def test_a_model_that_is_no_help_three_dreams_in_a_row_is_a_problem(
    here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    with ScriptedModel(prose) as server:
        config = Config(model=ModelSection(name="openai/small", api_base=server.url))
        for number in range(2):
            assert what(here) == []
            noted(here, f"Ada prefers tea number {number}")
            with open_exclusive(here, config, "test") as store, pytest.raises(RejectedError):
                dream_now(store, Reason.MANUAL, Mode.AUTO)
        noted(here, "Ada prefers tea number 2")
        with open_exclusive(here, config, "test") as store:
            assert dream_now(store, Reason.MANUAL, Mode.AUTO).dream.author == "extractive"
        assert what(here) == ["no answer of openai/small could be used in the last 3 dreams that asked it"]
        server.script = good
        noted(here, "Ada prefers tea number 3")
        with open_exclusive(here, config, "test") as store:
            dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert what(here) == []


def test_the_last_rejections_come_with_their_figures(here: Workspace) -> None:
    with open_exclusive(here, Config(), "test") as store:
        store.ledger.begin("d1", "manual", utc_now())
        store.ledger.reject("d1", [Refusal("mass drop", "dream", "40 % of 2,100 characters")], utc_now())
        store.ledger.end("d1", "rejected", "mass drop", utc_now())
    assert now(here).rejections == (Refusal("mass drop", "dream", "40 % of 2,100 characters"),)


def test_problems_say_what_to_do(here: Workspace) -> None:
    noted(here, "Ada prefers tea")
    with open_exclusive(here, Config(), "test") as store:
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    noted(here, "an old one", timedelta(hours=30))
    here.document.unlink()
    here.state.chmod(0o755)
    (here.root / ".MEMORY.md.displaced").write_text("x")
    problems = now(here).problems
    assert [problem.what for problem in problems] == [
        f"{here.state} is open to other users (755)",
        "a commit was interrupted while it wrote MEMORY.md, and left .MEMORY.md.displaced",
        "MEMORY.md is missing",
        "a note has waited for 30 hours",
    ]
    assert all(problem.advice for problem in problems)


SECOND = timedelta(seconds=1)


@given(st.timedeltas(timedelta(days=-400), timedelta(days=400)), st.timedeltas(timedelta(0), timedelta(seconds=40)))
def test_the_clock_is_the_other_one_as_far_as_that_is_known(off: timedelta, waited: timedelta) -> None:
    try:
        before = utc_now()
        said = before + off
        change = follow_clock(said, time.monotonic() - waited.total_seconds())
        now = utc_now()
        assert now - waited - 2 * SECOND <= said <= now + SECOND
        assert abs(now - before - change) < SECOND
        if -waited <= off <= timedelta(0):
            assert not change
        assert not follow_clock(said, time.monotonic() - (now - said + 2 * SECOND).total_seconds())
    finally:
        stores._clock.behind = timedelta(0)
