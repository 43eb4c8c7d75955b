"""What a repair must not lose or bring back: what the owner wrote, notes in any encoding, what was forgotten."""

import pytest

from daemon.upkeep.repair.run import Repair
from state.document.document import parse
from state.stores.disk.workspace import Workspace
from tests.support.breaking import BY_HAND, about, repaired
from tests.support.notes import pending_notes
from tests.support.running import Caller


@pytest.mark.parametrize("spoilt", ["a heading", "a byte"])
def test_a_file_that_can_be_read_keeps_all_that_its_owner_wrote(here: Workspace, spoilt: str) -> None:
    rows = here.document.read_text().splitlines(keepends=True)
    at = next(number for number, row in enumerate(rows) if BY_HAND in row)
    rows[at] = rows[at].replace(BY_HAND, f"{BY_HAND}, or was until 1841")
    text = "".join(rows).replace("# Working Memory State\n", "# Working Memory State\n\nMy own words on top.\n", 1)
    text += "\n## Private\n\n- Nobody's business\n"
    if spoilt == "a heading":
        here.document.write_text(text.replace("## Emerging Skills", "## Emergent Skills"))
    else:
        here.document.write_bytes(text.encode() + "- The café is shut\n".encode("cp1252"))
    assert about(repaired(here)) == {"MEMORY.md"}
    mended = here.document.read_text()
    for mine in ("My own words on top.", f"{BY_HAND}, or was until 1841", "Nobody's business"):
        assert mine in mended
    assert ("- The café is shut" in mended) == (spoilt == "a byte")
    assert parse(mended).has_schema
    assert repaired(here) == Repair()


@pytest.mark.full
def test_what_was_forgotten_stays_so_when_the_database_is_lost(
    here: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    dreamd = Caller(capsys)
    secret = "Zebras graze behind the old observatory"
    (here.root / "transcripts").mkdir(exist_ok=True)
    (here.root / "transcripts" / "talk.md").write_text(f"# Talk\n\n{secret}.\n")
    assert dreamd("ingest", here.root / "transcripts", "-w", here.root).status == 0
    assert dreamd("forget", secret, "--yes", "-w", here.root).status == 0
    for path in here.state.glob("state.db*"):
        path.unlink()
    assert dreamd("doctor", here.root, "--repair").status == 0
    assert "Zebras graze" not in dreamd("search", "zebras graze observatory", "-w", here.root).out


@pytest.mark.parametrize(
    "said",
    [
        "- Анна пьёт чай".encode("cp1251"),
        "- 東京に住んでいる".encode("shift_jis"),
        "- Ada likes coffee".encode("utf-16-le"),
        bytes(4_000),
    ],
    ids=["cp1251", "shift_jis", "utf-16", "NUL"],
)
def test_a_note_in_another_encoding_is_read_and_no_other_is_lost(here: Workspace, said: bytes) -> None:
    before = [note.text for note in pending_notes(here)]
    with here.scratch.open("ab") as log:
        log.write(said + b"\n- Ada likes tea\n")
    after = [note.text for note in pending_notes(here)]
    assert len(after) == len(before) + 1 + any(said)
    assert after[-1] == "Ada likes tea"
    assert "\0" not in "".join(after)
    assert repaired(here) == Repair()
