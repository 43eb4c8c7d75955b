"""What a dream reads of the workspace, and tries, beside others that write."""

import sqlite3
from contextlib import closing

from daemon.dream.memory import WorkspaceMemory
from daemon.dream.snapshot import snapshot
from daemon.workspace.document import settle_document
from daemon.workspace.session_start import session
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Crystal, Origin
from state.dream import Reason
from state.secrets.policy import DEFAULT
from tests.support.committing import dreamt
from tests.support.working import AT, SECRET, document, standing


def test_others_write_at_once_while_pointers_are_tried_and_the_trial_writes_nothing(store: Store) -> None:
    store.crystals.learn([Crystal(f"Note {number} on the cluster", Origin.SCRATCH, utc_now()) for number in range(9)])
    before = store.connection.total_changes
    leaving = Crystal("The passphrase of the north gate is quartz", Origin.LINE, utc_now())
    with (
        WorkspaceMemory(store).trial([leaving]) as trial,
        closing(sqlite3.connect(store.workspace.database, timeout=0, isolation_level=None)) as other,
    ):
        assert trial.first("quartz passphrase", 5) == (leaving.id,)
        other.execute("INSERT INTO meta VALUES ('another', 'wrote')")
        assert trial.frequency(["quartz", "cluster"]) == {"quartz": 1, "cluster": 9}
    assert store.connection.total_changes == before


def test_what_is_forgotten_is_not_tried(store: Store) -> None:
    store.crystals.forgotten.block_texts(["the passphrase is quartz"], utc_now())
    withheld = store.crystals.forgotten.withheld()
    with WorkspaceMemory(store).trial([Crystal("the passphrase is quartz", Origin.LINE, utc_now())]) as trial:
        assert trial.first("quartz passphrase", 5) == ()
    assert store.crystals.forgotten.withheld() == withheld


def test_the_constraints_are_read_with_their_numbers_and_without_the_marks_of_lists(store: Store) -> None:
    store.workspace.genome.write_text(
        "# Genome\n\n- 2FA must stay on\n* 30 days is the longest retention\n1. Never push to main\n"
        "12) Answer in English\n3.5 GB is the most memory\n-5 degrees is too cold\n**Never** lie\n-\n\n"
    )
    constraints = snapshot(store, (), (), "d", Reason.MANUAL, AT).genome

    assert constraints == (
        "2FA must stay on",
        "30 days is the longest retention",
        "Never push to main",
        "Answer in English",
        "3.5 GB is the most memory",
        "-5 degrees is too cold",
        "**Never** lie",
    )


def test_what_a_dream_has_written_is_shown_as_it_is_everywhere(store: Store) -> None:
    talk = "The keynote 'Pin the Map' was moved from Tuesday to Thursday\n\n\nHotkey for the palette is Ctrl+Shift+P"
    line = " ".join(talk.split())
    assert DEFAULT.of(talk) == talk
    assert DEFAULT.of(line) != line
    dreamt(store, talk)
    assert f"- {line}\n" in document(store)
    typed = f"- {line.replace('palette', 'shop')}\n- The palette's password is {SECRET}\n"
    store.workspace.document.write_text(document(store) + typed, encoding="utf-8")
    settle_document(store)
    read = WorkspaceMemory(store).read("d", Reason.MANUAL, utc_now())
    for shown in (
        session(store.workspace, 200_000, None, DEFAULT, utc_now()).ready.memory,
        store.shown_memory(document(store)),
        "\n".join(standing(store)),
        "\n".join(read.redaction.of(one.text) for one in read.lines),
    ):
        assert line in shown
        assert SECRET not in shown
        assert "Hotkey for the shop is [redacted: pin]" in shown
