"""Turns become crystals; and what a secret must not reach, whoever wrote it. And the owner's say."""

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.config.settings import Config, SecretsSection
from daemon.dream.answers import without_secrets
from daemon.dream.snapshot import snapshot
from daemon.ingest.formats.conversation import Turn
from daemon.ingest.seed import migrate
from daemon.ingest.transcripts import absorb_transcripts, crystals_of, transcript_files
from daemon.journal.story import story_of_line
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, utc_now
from graphs import talk
from graphs.sheet import Sheet
from state.crystals.crystal import Kind, Origin, Source
from state.document.operations import Refusal
from state.document.pointer import topic_of
from state.document.sections import SectionName
from state.dream import Reason, Snapshot
from state.secrets.policy import Redaction
from state.trust import Trust
from tests.support.working import working

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

HIDDEN = "[redacted: github token]"

HEADINGS = [f"## {name.value}" for name in SectionName]

MEMORY = "\n\n".join([*HEADINGS[:4], f"- The deploy token is {SECRET}, asked for by Ada", *HEADINGS[4:], ""])


def opened(root: Path, secrets: SecretsSection) -> AbstractContextManager[Store]:
    return working(root, Config(secrets=secrets))


def read(store: Store) -> Snapshot:
    """As a dream would, the owner's lines in it, and GENOME.md."""
    store.workspace.document.write_text(MEMORY, encoding="utf-8")
    settle_document(store)
    store.workspace.genome.write_text(f"- Never print {SECRET}\n", encoding="utf-8")
    return snapshot(store, (), (), "20260101T000000Z", Reason.MANUAL, utc_now())


@pytest.mark.parametrize("secrets", [SecretsSection(redact=False), SecretsSection(allow=(SECRET,))])
def test_the_owner_s_word_on_secrets_counts_in_prompts_too(tmp_path: Path, secrets: SecretsSection) -> None:
    with opened(tmp_path, secrets) as store:
        made = read(store)
    asked = "".join(one["content"] for one in talk.opening(made))
    assert SECRET in asked
    assert "[redacted" not in asked
    assert any(SECRET in Sheet(made).crystal_of(line).text for line in (*made.lines, *made.old_text))


@pytest.mark.parametrize(("redact", "left"), [(True, HIDDEN), (False, SECRET)])
def test_a_line_that_its_owner_deletes_is_kept_as_they_say(tmp_path: Path, left: str, *, redact: bool) -> None:
    with opened(tmp_path, SecretsSection(redact=redact)) as store:
        read(store)
        store.workspace.document.write_text("\n\n".join(HEADINGS), encoding="utf-8")
        settle_document(store)
        texts = [crystal.text for crystal in store.crystals.by_keys(range(99)).values()]
    assert f"The deploy token is {left}, asked for by Ada" in texts


def test_a_line_that_leaves_leaves_without_its_secret(tmp_path: Path) -> None:
    with opened(tmp_path, SecretsSection()) as store:
        made = read(store)
    assert made.lines
    for line in (*made.lines, *made.old_text):
        assert SECRET not in Sheet(made).crystal_of(line).text
        assert SECRET not in topic_of(made.redaction.of(line.text))


def test_old_text_becomes_crystals_without_it(tmp_path: Path) -> None:
    with opened(tmp_path, SecretsSection()) as store:
        store.workspace.document.write_text(f"I use the token {SECRET} for the shop\n", encoding="utf-8")
        migrate(store, utc_now())
        texts = [crystal.text for crystal in store.crystals.by_keys(range(99)).values()]
    assert texts == [f"I use the token {HIDDEN} for the shop"]


@pytest.mark.parametrize(("redact", "expected"), [(True, HIDDEN), (False, SECRET)])
def test_a_transcript_is_read_as_the_owner_says(tmp_path: Path, redact: bool, expected: str) -> None:  # noqa: FBT001
    with opened(tmp_path, SecretsSection(redact=redact)) as store:
        folder = tmp_path / "transcripts"
        folder.mkdir()
        turn = {"role": f"user {SECRET}", "content": f"it is {SECRET}"}
        (folder / "chat.jsonl").write_text(json.dumps(turn) + "\n", encoding="utf-8")
        (folder / "notes.md").write_text(f"# On {SECRET}\n\nIt is rotated every week.\n", encoding="utf-8")
        absorb_transcripts(store, transcript_files(store.workspace, store.config), utc_now())
        crystals = store.crystals.by_keys(range(99)).values()
    assert crystals
    assert (SECRET in str(crystals)) is not redact
    assert expected in str(crystals)


def test_the_ledger_keeps_none(tmp_path: Path) -> None:
    with opened(tmp_path, SecretsSection()) as store:
        store.ledger.begin("d", "manual", utc_now())
        store.ledger.end("d", "failed", f"MODEL_ERROR: Incorrect API key provided: {SECRET}", utc_now())
        store.ledger.reject("d", [Refusal("genome", "operation", f"it contradicts {SECRET}")], utc_now())
        assert HIDDEN in store.ledger.runs(1)[0].detail
        assert HIDDEN in store.ledger.rejections("d")[0].figures


@pytest.mark.parametrize(
    "answer",
    ['{"text": "the password is \\"hunter2!\\", isn\'t it", "n": [1, "%s"]}' % SECRET, f"plain {SECRET}"],  # noqa: UP031
)
def test_an_answer_is_kept_without_and_stays_what_it_is(answer: str) -> None:
    kept = without_secrets(answer, Redaction())
    assert SECRET not in kept
    assert answer.startswith("{") is isinstance(json.loads(kept) if kept.startswith("{") else None, dict)
    assert without_secrets(answer, Redaction(on=False)) == answer


def test_where_a_line_comes_from_is_told_without(tmp_path: Path) -> None:
    with opened(tmp_path, SecretsSection()) as store:
        read(store)
        (story,) = story_of_line(store, "deploy token")
    assert story.text == f"The deploy token is {HIDDEN}, asked for by Ada"


TURN = Turn(
    text="I prefer tabs.",
    speaker="user",
    trust=Trust.OWNER,
    at=datetime(2023, 5, 8, 13, 56, tzinfo=UTC),
    session="s1",
    position=3,
    source=Source("a.jsonl", 4, 4, "d" * 64),
)


def test_a_crystal_keeps_speaker_date_session_position_and_source() -> None:
    (crystal,) = crystals_of(TURN)
    assert crystal.origin is Origin.SESSION
    assert crystal.context == "User, 8 May 2023"
    assert (crystal.text, crystal.speaker, crystal.session, crystal.position) == ("I prefer tabs.", "user", "s1", 3)
    assert (crystal.kind, crystal.trust, crystal.created_at) == (Kind.PREFERENCE, Trust.OWNER, TURN.at)
    assert str(crystal.source) == "a.jsonl:4@dddddddddddd"


def test_a_block_of_a_document_has_its_headings_as_context() -> None:
    (crystal,) = crystals_of(replace(TURN, speaker="", heading="Project > Setup"))
    assert crystal.context == "Project > Setup, 8 May 2023"


def test_a_secret_is_gone_before_the_text_is_cut() -> None:
    secret = "Tr0ub4dor" + "x9Q" * 200
    words = " ".join(f"word{number}" for number in range(398))
    crystals = list(crystals_of(replace(TURN, text=f"{words} password={secret} {words}")))
    assert len(crystals) > 1
    assert not any("x9Qx9Q" in crystal.text for crystal in crystals)
    assert any("[redacted: password]" in crystal.text for crystal in crystals)
    assert {crystal.position for crystal in crystals} == {3}
