"""Turns become crystals: redacted, chunked, with their context and provenance."""

from dataclasses import replace
from datetime import UTC, datetime

from daemon.ingest.formats.conversation import Turn
from daemon.ingest.transcripts import crystals_of
from state.crystals.crystal import Kind, Origin, Source
from state.trust import Trust

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
