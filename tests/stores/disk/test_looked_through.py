"""What was looked through for secrets is not looked through again, and nothing else is passed on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace import adoption
from daemon.workspace.stores import utc_now
from state.secrets.policy import Redaction
from state.stores.disk import looked_through
from state.stores.disk.looked_through import MOST, LookedThrough
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.committing import dreamt, opened

SECRET = "The password of the staging box is hunter2-Xq9!"
FACTS = ("The port of /srv/ledger-2 is 8080", "Grüße → 9:30, #4711", "plain words")
TEXTS = st.lists(st.sampled_from([*FACTS, SECRET, "", f"{FACTS[0]}\n{SECRET}"]), max_size=8)
SETTINGS = st.builds(Redaction, st.booleans(), st.sampled_from([(), ("hunter2-Xq9!",)]))


@given(st.lists(st.tuples(SETTINGS, TEXTS, st.booleans()), max_size=5))
def test_whatever_was_kept_before_a_text_is_redacted_as_the_rules_say(
    tmp_path_factory: pytest.TempPathFactory, uses: list[tuple[Redaction, list[str], bool]]
) -> None:
    workspace = init_workspace(contained(tmp_path_factory.mktemp("looked") / "agent"))
    for redaction, texts, kept in uses:
        looked = LookedThrough(workspace, redaction)
        assert [looked.redacted(text) for text in texts] == [redaction.of(text) for text in texts]
        if kept:
            looked.keep()


def test_other_rules_look_again(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    LookedThrough(workspace, Redaction()).keep(SECRET)  # as rules might have had it that did not know it
    assert LookedThrough(workspace, Redaction()).redacted(SECRET) == SECRET
    monkeypatch.setattr(looked_through, "_rules", lambda: (("state/secrets/rules.py", 1, 1),))
    assert "hunter2" not in LookedThrough(workspace, Redaction()).redacted(SECRET)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"\n\n", b"0" * 1_000_000])
def test_a_damaged_file_costs_a_look(workspace: Workspace, content: bytes) -> None:
    path = workspace.checkpoints / "looked_through"
    path.write_bytes(content)
    looked = LookedThrough(workspace, Redaction())
    assert "hunter2" not in looked.redacted(SECRET)
    assert looked.redacted(FACTS[0]) == FACTS[0]
    looked.keep()


def test_the_file_does_not_grow_without_end(workspace: Workspace) -> None:
    for start in range(0, 3 * MOST, 500):
        LookedThrough(workspace, Redaction()).keep(*(f"fact {number}" for number in range(start, start + 500)))
    assert len((workspace.checkpoints / "looked_through").read_text().split("\n")) <= MOST + 502


def test_a_forgetting_drops_it(workspace: Workspace) -> None:
    with opened(workspace) as store:
        dreamt(store, *FACTS)
        assert (workspace.checkpoints / "looked_through").exists()
        forget(store, ForgetRequest("plain words"), utc_now())
    assert not (workspace.checkpoints / "looked_through").exists()


def test_a_session_start_reads_no_rules(tmp_path: Path) -> None:
    workspace = adoption.init_workspace(tmp_path / "adopted")
    with opened(workspace) as store:
        dreamt(store, *FACTS)
    program = (
        "import sys; from daemon.cli import main; main(sys.argv[1:]);"
        "print(*(name for name in sys.modules if name in ('state.secrets.redaction', 'state.dream', 'pydantic')),"
        " file=sys.stderr)"
    )
    for words in (["note", "/srv/ledger-3 moves to port 9090"], ["bootstrap"]):
        command = [sys.executable, "-c", program, *words, "-w", str(workspace.root)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        assert ended.stderr.strip().split("\n")[-1] == ("state.secrets.redaction" if words[0] == "note" else "")
    assert "9090" in ended.stdout
    assert FACTS[0] in ended.stdout
