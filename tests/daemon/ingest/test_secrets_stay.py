"""What a secret must not reach, whoever wrote it: a model, a crystal, a pointer, the ledger. And the owner's say."""

import json
from pathlib import Path
from typing import Any

import pytest

from daemon.config.settings import Config, SecretsSection
from daemon.dream.answers import without_secrets
from daemon.dream.snapshot import snapshot
from daemon.explain.why import why
from daemon.ingest.seed import migrate
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.workspace.adoption import init_workspace
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from graphs import talk
from graphs.sheet import Sheet
from state.document.document import SectionName
from state.document.operations import Refusal
from state.document.pointer import topic_of
from state.dream import Reason, Snapshot
from state.secrets.policy import Redaction
from state.stores.vectors.embedder import Unavailable

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
HIDDEN = "[redacted: github token]"
HEADINGS = [f"## {name.value}" for name in SectionName]
MEMORY = "\n\n".join([*HEADINGS[:4], f"- The deploy token is {SECRET}, asked for by Ada", *HEADINGS[4:], ""])


def opened(root: Path, secrets: SecretsSection) -> Any:
    there = Embedding.given(Unavailable("not needed here"))
    return open_exclusive(init_workspace(root), Config(secrets=secrets), "a test", embedding=there)


def read(store: Store) -> Snapshot:
    """As a dream would, the owner's lines in it, and GENOME.md."""
    store.workspace.document.write_text(MEMORY, encoding="utf-8")
    settle_document(store)
    store.workspace.genome.write_text(f"- Never print {SECRET}\n", encoding="utf-8")
    return snapshot(store, (), (), "20260101T000000Z", Reason.MANUAL, utc_now())


def said(snapshot: Snapshot, text: str) -> list[dict[str, str]]:
    """A conversation in which the model says this, and is told what became of it."""
    operation = {"op": "add", "section": SectionName.CONTEXT.value, "text": text, "cites": ["N1"]}
    answer = json.dumps({"operations": [operation, {"op": text, "text": text}]})
    messages = [*talk.opening(snapshot), {"role": "assistant", "content": answer}]
    further = talk.reply(talk.heard(snapshot, messages), 1)
    assert further is not None
    return [*messages[:2], further]


def test_a_prompt_has_no_secret_of_the_file_of_the_genome_or_of_what_was_answered(tmp_path: Path) -> None:
    with opened(tmp_path, SecretsSection()) as store:
        asked = "".join(one["content"] for one in said(read(store), f"Use {SECRET}"))
    assert SECRET not in asked
    assert asked.count(HIDDEN) >= 3


@pytest.mark.parametrize("secrets", [SecretsSection(redact=False), SecretsSection(allow=(SECRET,))])
def test_the_owner_s_word_on_secrets_counts_in_prompts_too(tmp_path: Path, secrets: SecretsSection) -> None:
    with opened(tmp_path, secrets) as store:
        made = read(store)
    asked = "".join(one["content"] for one in talk.opening(made))
    assert SECRET in asked
    assert "[redacted" not in asked
    assert any(SECRET in Sheet(made).crystal_of(line).text for line in (*made.lines, *made.old_text))


def test_a_line_that_leaves_leaves_without_its_secret(tmp_path: Path) -> None:
    with opened(tmp_path, SecretsSection()) as store:
        made = read(store)
    assert made.lines
    for line in (*made.lines, *made.old_text):
        assert SECRET not in Sheet(made).crystal_of(line).text
        assert SECRET not in topic_of(made.redaction.of(line.text))


def test_what_a_model_says_is_no_secret_either(tmp_path: Path) -> None:
    with opened(tmp_path, SecretsSection()) as store:
        made = read(store)
    operation = {"op": "revise", "lines": ["L1"], "text": f"Use {SECRET}", "cites": ["L1"]}
    sheet = talk.heard(made, [{"role": "assistant", "content": json.dumps({"operations": [operation]})}])
    assert [one.operation.text for one in sheet.told] == [f"Use {HIDDEN}"]


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
        absorb_transcripts(store, transcript_files(store), utc_now())
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
        (story,) = why(store, "deploy token")
    assert story.text == f"The deploy token is {HIDDEN}, asked for by Ada"
