"""LoCoMo: conversations of two people over many sessions, in one JSON file (Maharana et al., 2024).

[{sample_id, conversation: {speaker_a, speaker_b, session_N: [{speaker, dia_id, text, blip_caption?}],
session_N_date_time: "1:56 pm on 8 May, 2023"}}]. What a photograph shows is appended in brackets.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from daemon.ingest.formats.cleaning import clean
from daemon.ingest.formats.turn import RawTurn, Record
from state.trust import Trust

TURN_KEY = "dia_id"  # once in every turn and nowhere else: tells the line of each
_SESSION = re.compile(r"session_\d+")
_TIME = re.compile(r"(\d{1,2}):(\d\d)\s*([ap])m\s+on\s+(\d{1,2})\s+([a-z]{3})[a-z]*\s*,?\s+(\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def recognises(document: object) -> bool:
    """Whether this is a LoCoMo file, or one sample of it."""
    samples = document if isinstance(document, list) else [document]
    return bool(samples) and all(
        isinstance(sample, dict) and isinstance(sample.get("conversation"), dict) for sample in samples
    )


def raw_turns(document: object) -> Iterator[RawTurn]:
    """Every turn of a document that `recognises` accepts, in the order of the file.

    A turn without text gives "", so that turns and `dia_id`s stay in step.
    """
    samples = document if isinstance(document, list) else [document]
    for number, sample in enumerate(samples, 1):
        conversation = sample["conversation"]
        name = sample.get("sample_id") or f"sample-{number}"
        for key, turns in conversation.items():
            if _SESSION.fullmatch(key) and isinstance(turns, list):
                at = session_time(conversation.get(f"{key}_date_time"))
                for turn in turns:
                    if isinstance(turn, dict) and TURN_KEY in turn:
                        yield _turn(turn, at, f"{name}/{key}")


def session_time(value: object) -> datetime | None:
    """The time in "1:56 pm on 8 May, 2023", taken as UTC, or None."""
    found = _TIME.search(value) if isinstance(value, str) else None
    if not found or found[5].lower() not in _MONTHS:
        return None
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "p" else 0)
    try:
        return datetime(
            int(found[6]), _MONTHS.index(found[5].lower()) + 1, int(found[4]), hour, int(found[2]), tzinfo=UTC
        )
    except ValueError:
        return None


def _turn(turn: Record, at: datetime | None, session: str) -> RawTurn:
    raw_turns = turn.get("text")
    text = clean(raw_turns) if isinstance(raw_turns, str) else ""
    if isinstance(caption := turn.get("blip_caption"), str) and caption.strip():
        text = f"{text} [{clean(caption)}]".strip()
    return RawTurn(text, clean(str(turn.get("speaker") or "")), Trust.OWNER, at, session)
