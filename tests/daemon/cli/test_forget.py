"""`dreamd forget` as it is called: a receipt without the text, a question first, and what stays where it is said."""

from pathlib import Path

import pytest

from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace
from state.dream import Reason
from state.stores.disk.workspace import Workspace
from state.stores.erasing import files
from tests.support.forgettable import assert_gone, copied, quick
from tests.support.running import Caller
from tests.support.transcript import Transcript
from tests.support.working import noted

SECRET = "the launch crew is 7731 blue"
KEPT = "Ada prefers tea over coffee in the morning"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A line of MEMORY.md, a crystal with other sentences, and a note that waits."""
    workspace = init_workspace(tmp_path_factory.mktemp("prepared") / "w")
    with quick(workspace) as store:
        noted(store, f"{KEPT}. And {SECRET}.", "The staging server listens on port 8080")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        noted(store, f"It waits: {SECRET}")
    return workspace


@pytest.fixture
def workspace(prepared: Workspace, tmp_path: Path) -> Workspace:
    return copied(prepared, tmp_path / "here")


@pytest.fixture
def told(workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch) -> Transcript:
    transcript = Transcript(dreamd, workspace.root, monkeypatch)
    transcript.names |= {"secret": SECRET, "kept": KEPT}
    return transcript


def test_a_receipt_says_where_it_was_and_it_is_learnt_again_only_when_that_is_lifted(
    told: Transcript, workspace: Workspace
) -> None:
    ended = told("""
        $ dreamd forget <secret> --yes
        forgotten:
        …MEMORY.md: 1…state.db: crystals: …
        searched afterwards: … files, … bytes: nothing of it is left
        it will not be learnt again; 'dreamd forget --lift' changes that
        known again: …
    """)
    assert SECRET not in ended.out + ended.err
    assert_gone(workspace, SECRET)
    told("""
        $ dreamd search <kept> --limit 1
        1. <kept>…
        $ dreamd forget <secret> --yes
        it was nowhere; it will not be learnt…
        $ dreamd forget <secret> --lift
        it may be learnt again
        $ dreamd forget <secret> --lift
        it was not forgotten; nothing was changed
        $ dreamd note <secret>
        noted
        $ dreamd dream
        …<secret>…
    """)


def test_of_words_alone_the_sentence_stays(told: Transcript, workspace: Workspace) -> None:
    told("""
        $ dreamd forget <secret> --yes --json --words
        …"cut": "words",…"place": "MEMORY.md",…"clean": true,…
        $ cat MEMORY.md
        …[forgotten]…
    """)
    assert_gone(workspace, SECRET)


def test_a_person_is_asked_and_may_name_what_stays(told: Transcript, workspace: Workspace) -> None:
    before = workspace.document.read_bytes()
    told("""
        $ dreamd forget <secret> --dry-run
        would go:
        1. <kept>. And <secret>.
        line <line>, crystal …
        2. It waits: <secret>
        note …
        $ dreamd forget <secret>
        ! dreamd: what is forgotten cannot be brought back; say --yes, or --dry-run to see what would go
        [2]
    """)
    for answer in ("n", "3", "0", "''", "some"):
        told(f"$ typing {answer} | dreamd forget <secret>\n! would go:…nothing was changed\n[2]")
    assert workspace.document.read_bytes() == before
    told("""
        $ typing 2 | dreamd forget <secret> --json
        …"kept": 1,…"clean": true,…
        ! would go:…
        $ cat memory/scratch.md
        …It waits: <secret>…
    """)
    assert SECRET not in workspace.document.read_text(encoding="utf-8")


def test_what_is_excepted_by_an_id_stays(told: Transcript, workspace: Workspace) -> None:
    told("""
        $ dreamd forget <secret> --dry-run
        …line <line>,…
        $ dreamd forget <secret> --yes --except L999
        ! dreamd: L999: no text of this id would go…
        [2]
        $ dreamd forget <secret> --yes --except <line>
        …nothing of it is left
        it will not be learnt again, but for what 1 kept text may say; …
        $ cat MEMORY.md
        …<secret>…
    """)
    assert_gone(workspace, f"It waits: {SECRET}")


def test_what_is_left_is_status_one_and_the_text_may_come_from_stdin(
    told: Transcript, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "erase_others", lambda *_: None)  # the search finds what no step took out
    (workspace.state / "odd.bin").write_bytes(SECRET.encode("utf-16-le"))
    told(
        """
        $ piping <secret>\\n | dreamd forget - --yes
        forgotten:
        …some of it is left…/odd.bin: 1, …
        ! …
        [1]
    """.replace("<secret>\\n", f"'{SECRET}'")
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--yes", "what is to be forgotten?"),
        ("'  ' --yes", "the text is empty"),
        ("… --yes", "at least one word"),
        (f"'{'word ' * 20_001}' --yes", "TEXT: string should have at most 80000 characters"),
        ("x --lift --words", "--lift takes no --words"),
        ("--lift", "which text?"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(told: Transcript, words: str, said: str) -> None:
    assert said in told(f"$ dreamd forget {words}\n! dreamd: …\n[2]").err


def test_a_note_from_the_command_line_is_written_without_what_is_forgotten(
    told: Transcript, workspace: Workspace
) -> None:
    told("$ dreamd forget <secret> --yes\n…")
    ended = told(
        """
        $ dreamd note "<kept>. And <secret>."
        noted
    """.replace("<kept>", KEPT).replace("<secret>", SECRET)
    )
    assert "notice: what the owner has forgotten was left out of the note" in ended.err
    told("""
        $ dreamd note <secret>
        ! dreamd: nothing was noted: all that the note says was forgotten by its owner; 'dreamd forget --lift'…
        [2]
    """)
    assert_gone(workspace, SECRET)
