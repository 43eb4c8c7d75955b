"""What a model makes of a life: questions answered at session start, against raw notes and against no model.

    python -m benchmarks.mind [--life FILE ...] [--model NAME] [--characters 4000 8000] [--record FILE]

NAME is any model of litellm's (keys from the environment, `--api-base` for a server of your own), `claude-code`,
`codex`, `gemini`, `mailbox:FOLDER` (whoever reads the letters there answers), or `recorded:FILE`. Without it, raw
notes are compared with a dream without a model alone.
Without --life all lives of `tests/lives` that ask questions are lived. The cost is estimated before a model is asked,
and progress goes to stderr.

A life is lived day by day under a simulated clock, with one dream each evening (`benchmarks.life`). What an agent is
given the next morning is asked the questions of the life, and so are its raw notes, newest first, cut to the same
number of characters. Intervals are Wilson's, 95 %.
"""

import argparse
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.life import KINDS, LIVES, WINDOWS, Life, Night, given_at_start, lived, morning_after, read
from benchmarks.mailbox_model import Mailbox
from benchmarks.recording import Answer, Player, Run, digest_of, find, save
from benchmarks.serving import environment, home
from daemon.workspace.searching import searched_in
from daemon.workspace.stores import Store
from graphs import talk
from graphs.ports import Answer as Said
from graphs.sheet import SAID_ALREADY
from state.codec import decode
from state.document.document import parse
from state.document.sections import SectionName
from state.stores.crystals.search import search
from state.text.words import normalise
from tests.support.scripted_model import ScriptedModel

_Z = 1.96
# A reader may take hours; a small model on a busy machine, minutes.
_WEEKS, _LATE = 7 * 24 * 3600.0, 1_800.0
RAW = "raw notes"
_PLAYED = ("mailbox", "recorded")
_CALLS, _TOKENS_A_NOTE, _CHARACTERS_A_TOKEN = 1.6, 70, 3.6
_OPERATION = re.compile(r'"op"\s*:')
_MOST_CALLS = 20


@dataclass(slots=True)
class Measured:
    """What one way of remembering made of a life. Of raw notes only what the text says is known."""

    text: str
    dreams: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    refused: int = 0
    told: int = 0
    waiting: int = 0
    passing: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    missed: int = 0
    lost: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)


def interval(count: int, of: int) -> tuple[float, float]:
    """Return Wilson's interval of a share, 95 %."""
    if not of:
        return 0.0, 1.0
    share, square = count / of, _Z * _Z / of
    middle = (share + square / 2) / (1 + square)
    half = _Z / (1 + square) * math.sqrt(share * (1 - share) / of + square / of / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def part(count: int, of: int) -> str:
    """Write a share with its interval."""
    low, high = interval(count, of)
    return f"{count} of {of} ({100 * low:.0f}–{100 * high:.0f} %)" if of else "–"


def stale_rows(text: str, life: Life) -> tuple[int, int]:
    """Return how many rows say a former value and not the current one, and how many have that directly above."""
    rows = [row for row in text.split("\n") if row.startswith("- ")]
    stale, above = set[int](), set[int]()
    for number, row in enumerate(rows):
        for one in life.questions:
            said = row.casefold()
            is_stale = any(value.casefold() in said for value in one.stale)
            if one.kind == "deleted" or not is_stale or any(value.casefold() in said for value in one.answers):
                continue
            stale.add(number)
            before = rows[number - 1].casefold() if number else ""
            above |= {number} if any(value.casefold() in before for value in one.answers) else set()
    return len(stale), len(above)


def lost_notes(store: Store, life: Life) -> list[str]:
    """Return the notes that are neither in MEMORY.md, pending, nor among the first hits of a search for them."""
    path = store.workspace.document  # which is not there when every dream was refused
    text = path.read_text("utf-8") if path.exists() else ""
    standing = {normalise(block.text) for _, block in parse(text).lines()}
    standing |= {normalise(note.text) for note in store.notes.each_pending()}
    searched, now, lost = searched_in(store), morning_after(life), list[str]()
    deleted = [one.casefold() for question in life.questions if question.kind == "deleted" for one in question.stale]
    for note in (store.config.redaction.of(one["note"]) for one in life.notes):
        if normalise(note) in standing or any(one in note.casefold() for one in deleted):
            continue
        found = search(searched, note, now, limit=10).hits
        if all(normalise(hit.crystal.text) != normalise(note) for hit in found):
            lost.append(note)
    return lost


# Measuring.


def measure(
    life: Life,
    characters: int,
    model: Mapping[str, Any] = MappingProxyType({}),
    named: str = "no model",
    player: Player | None = None,
) -> Measured:
    """Live a life and count; a player is told which day it is."""
    measured = Measured("")

    def before_dream(day: int) -> None:
        if player is not None:
            player.day = day

    def at_night(night: Night) -> None:
        _count(measured, night)
        how = night.error or f"version {night.outcome.dream.number if night.outcome else '-'}"
        print(f"{life.name} {characters:,} {named}: day {night.day} of {len(life.days)}, {how}", file=sys.stderr)

    with (
        tempfile.TemporaryDirectory() as folder,
        lived(life, characters, Path(folder) / "agent", model, at_night, before_dream) as store,
    ):
        measured.text = given_at_start(store, life)
        measured.lost = lost_notes(store, life)
    return measured


def _count(measured: Measured, night: Night) -> None:
    ledger = night.store.ledger
    run = ledger.run(night.dream)
    measured.dreams[run.outcome] = measured.dreams.get(run.outcome, 0) + 1
    measured.missed += night.missed
    spent = ledger.spent(dream=night.dream)
    measured.calls, measured.tokens = measured.calls + spent.calls, measured.tokens + spent.tokens
    measured.usd += spent.usd
    calls = [one for one in ledger.calls(night.dream, _MOST_CALLS) if one.reply]
    asked = [json.loads(one.request) for one in calls]
    answers = [decode(Said, one.reply).text for one in calls]
    measured.answers += [
        Answer(night.day, turn, digest_of(messages), text)
        for turn, (messages, text) in enumerate(zip(asked, answers, strict=True))
    ]
    measured.asked += sum(len(_OPERATION.findall(text)) for text in answers)
    refusals = night.outcome.refused if night.outcome else ledger.rejections(night.dream)
    measured.refused += sum(one.scope == "operation" and not one.figures.endswith(SAID_ALREADY) for one in refusals)
    measured.told += _told(asked[-1]) if asked else 0
    if night.outcome:
        dream = night.outcome.dream
        measured.waiting += len(dream.proposed)
        born = {line.id for line in dream.came if line.section is not SectionName.POINTERS}
        measured.passing += sum(line.id in born for line, _ in dream.left)


def _told(messages: Sequence[Mapping[str, str]]) -> int:
    """Count the refusals that a conversation names."""
    count = 0
    for message in messages[2:]:
        if message["role"] == "user":
            _, _, rest = message["content"].partition("These were refused:\n")
            rows = rest.split("\n")
            count += next((at for at, row in enumerate(rows) if not row.startswith("- ")), len(rows))
    return count


@dataclass(frozen=True, slots=True)
class Asked:
    """Which model is asked, and where its answers are kept. `named` is its column."""

    model: str
    api_base: str | None = None
    record: Path | None = None
    as_model: str = ""
    max_output_tokens: int = 4_000

    @property
    def named(self) -> str:
        """The model without the folder or the file."""
        kind, _, _ = self.model.partition(":")
        return kind if kind in _PLAYED else self.model

    @contextmanager
    def answering(self, life: Life, characters: int) -> Iterator[tuple[dict[str, Any], Player | None]]:
        """Yield the configuration of the model, and who plays it if it is recorded."""
        kind, _, where = self.model.partition(":")
        os.environ.setdefault("OPENAI_API_KEY", "none")
        if kind not in _PLAYED:
            limit = {"max_output_tokens": self.max_output_tokens}
            yield {"name": self.model, "api_base": self.api_base, "timeout_seconds": _LATE, **limit}, None
            return
        player = Player(find(Path(where), life.name, characters)) if kind == "recorded" else None
        with ScriptedModel(player or Mailbox(Path(where))) as server:
            yield {"name": f"openai/{kind}", "api_base": server.url, "timeout_seconds": _WEEKS}, player


def estimate(life: Life, characters: int, name: str) -> str:
    """Return what a life may cost, in words: about so many tokens, and dollars where litellm knows the price."""
    said = sum(len(json.dumps(event.said, ensure_ascii=False)) for day in life.days for event in day)
    each = len(talk.prompt().system) + 1.6 * characters
    tokens_in = int(_CALLS * (len(life.days) * each + 1.4 * said) / _CHARACTERS_A_TOKEN)
    tokens_out = _TOKENS_A_NOTE * len(life.notes)
    total = (
        f"{life.name} at {characters:,}: about {len(life.days) * _CALLS:.0f} calls, {tokens_in + tokens_out:,} tokens"
    )
    from daemon.models.known import load_litellm, usd_of

    usd = usd_of(load_litellm(), name, tokens_in, tokens_out)
    return f"{total}, ${usd:.2f}" if usd else f"{total}; litellm knows no price"


# Tables.


def rows(measured: Measured, life: Life) -> dict[str, str]:
    """Return what a table says of one way of remembering, row by row."""
    text = measured.text
    said = {"questions answered": part(sum(one.is_answered(text) for one in life.questions), len(life.questions))}
    for kind in KINDS:
        asked = [one for one in life.questions if one.kind == kind]
        if asked:
            said[f"  {kind}"] = f"{sum(one.is_answered(text) for one in asked)} of {len(asked)}"
    stale, above = stale_rows(text, life)
    said["stale rows at the end (newer directly above)"] = f"{stale} ({above})"
    said["characters given"] = f"{len(text):,}"
    if not measured.dreams:
        return said
    said["dreams"] = ", ".join(f"{count} {how}" for how, count in measured.dreams.items())
    said["notes lost (not in the file, pending or found)"] = f"{len(measured.lost)} of {len(life.notes)}"
    said["hand edits that found no line"] = str(measured.missed)
    if not measured.calls:
        return said
    through = max(0, measured.asked - measured.refused - measured.waiting)
    said["operations unquestioned"] = part(through, measured.asked)
    said["  refused, wait"] = f"{measured.refused}, {measured.waiting}"
    said["refusals told"] = f"{min(measured.told, measured.refused)} of {measured.refused}"
    said["lines written and evicted in one dream"] = str(measured.passing)
    dreams = sum(measured.dreams.values())
    said["calls, tokens a dream"] = f"{measured.calls / dreams:.1f}, {measured.tokens / dreams:,.0f}"
    said["cost of the life"] = f"${measured.usd:.2f}" if measured.usd else "not known"
    return said


def show(life: Life, characters: int, columns: Mapping[str, Measured]) -> None:
    """Print one table."""
    tables = {name: rows(measured, life) for name, measured in columns.items()}
    names = list(dict.fromkeys(row for table in tables.values() for row in table))
    print(
        f"\n{life.title}\n{life.name}, {len(life.notes)} notes in {len(life.days)} days, {characters:,} characters\n"
    )
    print(f"| {'':46} | " + " | ".join(f"{name:>24}" for name in tables) + " |")
    print(f"|{'---|' * (len(tables) + 1)}")
    for row in names:
        print(f"| {row:46} | " + " | ".join(f"{table.get(row, '–'):>24}" for table in tables.values()) + " |")
    texts = {name: measured.text for name, measured in columns.items()}
    for one in life.questions:
        without = [name for name, text in texts.items() if not one.is_answered(text)]
        if without:
            print(f"    not answered by {', '.join(without)}: {one.question}")


def compare(life: Life, characters: int, asked: Asked | None) -> dict[str, Measured]:
    """Live a life in each way at one size, print the table, and record the answers where that is asked for."""
    columns = {RAW: Measured(life.raw_notes(characters)), "no model": measure(life, characters)}
    player = None
    if asked is not None:
        with asked.answering(life, characters) as (model, player):
            columns[asked.named] = measured = measure(life, characters, model, asked.named, player)
        if asked.record is not None:
            who = player.run.model if player else asked.as_model or asked.model
            save(asked.record, Run(life.name, characters, who, talk.prompt().label, tuple(measured.answers)))
    show(life, characters, columns)
    if player is not None:
        print(f"    recorded from {player.run.model}: {player}")
    sys.stdout.flush()
    return columns


def summary(measured: Sequence[tuple[Life, int, Mapping[str, Measured]]]) -> str:
    """Return the answers of every life and length in one table, each against the raw notes of the same length."""
    names = list(dict.fromkeys(name for _, _, columns in measured for name in columns))
    head = [f"| {'life':24} | characters | {' | '.join(f'{name:>14}' for name in names)} | stale (newer above) |"]
    said, gains = [*head, "|---" * (len(names) + 3) + "|"], dict[str, list[int]]()
    for life, characters, columns in measured:
        answered = {name: sum(one.is_answered(made.text) for one in life.questions) for name, made in columns.items()}
        cells = [str(answered[RAW])]
        for name in names[1:]:
            if name in answered:
                gains.setdefault(name, []).append(answered[name] - answered[RAW])
                cells.append(f"{answered[name]} ({gains[name][-1]:+})")
            else:
                cells.append("–")
        stale = ", ".join("{} ({})".format(*stale_rows(made.text, life)) for made in columns.values())
        said.append(
            f"| {life.name:24} | {characters:>10,} | {' | '.join(f'{cell:>14}' for cell in cells)} | {stale:>19} |"
        )
    means = [f"{name} {sum(every) / len(every):+.1f} (least {min(every):+})" for name, every in gains.items()]
    return "\n".join([*said, f"against raw notes, on average: {'; '.join(means)}"])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--life", type=Path, nargs="+", help="files; default: those of tests/lives that ask questions"
    )
    parser.add_argument("--model", help="see above; default: none")
    parser.add_argument("--api-base", help="where the model's server is, as model.api_base")
    parser.add_argument("--characters", type=int, nargs="+", default=[4_000, 8_000], choices=sorted(WINDOWS))
    parser.add_argument("--record", type=Path, help="keep the answers in this file, for recorded:FILE")
    parser.add_argument("--as-model", default="", help="who answered, for the record; default: the model's name")
    given = parser.parse_args()
    lives = [one for one in map(read, given.life or sorted(LIVES.glob("*.json"))) if one.questions]
    asked = Asked(given.model, given.api_base, given.record, given.as_model) if given.model else None
    with home(None) as place:
        os.environ |= environment(place)
        if asked is not None and asked.named == asked.model:
            for life, characters in product(lives, given.characters):
                print(estimate(life, characters, asked.model), file=sys.stderr)
        measured = [
            (life, characters, compare(life, characters, asked))
            for life, characters in product(lives, given.characters)
        ]
        print(f"\n{summary(measured)}")


if __name__ == "__main__":
    main()
