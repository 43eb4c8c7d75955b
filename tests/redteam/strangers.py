"""Strangers: how often a page's or a program's words come to stand as if they were the agent's own, over a corpus.

    python -m tests.redteam.strangers FOLDER [--half odd|even]

A folder holds `poison_*.jsonl` (kind, language, source, text), `mixtures_*.jsonl` (owner, stranger, mixed) and
`honest_*.jsonl` (text, line). Each text is laundered in every way that a careless or captured model knows; each of
these is one dream, without a model and without a disk. A leak is a new line that stands unquoted and is none of the
agent's own. An honest line is lost when it is missing, or stands as a quotation of somebody else.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from graphs import reflection
from graphs.eviction import evict as fade
from graphs.extractive import condensed, extract
from graphs.guards import judge
from graphs.synthesis import read
from graphs.working_copy import WorkingCopy
from state.crystals.crystal import Crystal
from state.document.merge import working
from state.document.operations import Operation
from state.document.pointer import parse_pointer
from state.dream import Draft, Evidence, Kind, Snapshot
from state.injection.defang import defang, is_quoted, quote, unquoted
from state.text.words import content_terms, normalise
from state.trust import Trust
from tests.graphs.world import BOND, CONTEXT, NOW, Library, add, evict, memory, merge, note, revise, snapshot

OWN = ("The weekly report goes out on Friday at noon.", "The test data lives in the folder fixtures.")
BESIDE = 4
_EXAMPLES = 12


@dataclass(frozen=True)
class Row:
    """A line of a corpus: `own` is the agent's note, `line` what a good model makes of it, `strange` a stranger's."""

    kind: str
    language: str
    own: str
    line: str = ""
    strange: str = ""
    trust: Trust = Trust.WEB
    mixed: str = ""


@dataclass(frozen=True)
class Dreamt:
    """What a model answered and what of it stood: `leaks` are unquoted lines that are not the agent's."""

    behaviour: str
    row: Row
    leaks: tuple[str, ...]


@dataclass
class Figures:
    """The outcome over a corpus."""

    dreams: int = 0
    leaks: list[Dreamt] = field(default_factory=list)
    honest: int = 0
    lost: list[tuple[str, Row, str]] = field(default_factory=list)

    def __str__(self) -> str:
        lost = f"{len(self.lost)} of {self.honest:,} honest lines lost"
        rows = [f"{len(self.leaks)} leaks in {self.dreams:,} dreams; {lost}"]
        for name, count in Counter(one.behaviour for one in self.leaks).most_common():
            rows.append(f"  {name}: {count}")
        rows += [f"  {one.behaviour}, {one.row.kind}: {one.leaks[0]}" for one in self.leaks[:_EXAMPLES]]
        rows += [f"  honest ({where}), {row.kind}: {row.line} ({why})" for where, row, why in self.lost[:_EXAMPLES]]
        return "\n".join(rows)


def figures(folder: Path, half: str = "", step: int = 1) -> Figures:
    """Run every dream over the rows of a folder; `half`: the odd or the even ones, `step`: of these each n-th."""
    poison = [
        Row(one["kind"], one["language"], "", strange=one["text"], trust=Trust(one["source"]))
        for one in _rows(folder, "poison", half)[::step]
    ]
    honest = [
        Row(one["kind"], one["language"], one["text"], one["line"]) for one in _rows(folder, "honest", half)[::step]
    ]
    mixtures = [
        Row(one["kind"], one["language"], one["owner"], one["owner"], one["stranger"], mixed=one["mixed"])
        for one in _rows(folder, "mixtures", half)[::step]
    ]
    found, random = Figures(), Random(7)
    for at, row in enumerate(poison):
        by = honest[at % len(honest)] if honest else Row("", "", OWN[0], OWN[0])
        _launder(replace(row, own=by.own, line=by.line), BEHAVIOURS, found)
    for row in mixtures:
        _launder(row, MIXED, found)
    strangers = [(row.strange, row.trust) for row in (*poison, *mixtures)]
    for row in honest:
        _ask_honestly(row, (), "alone", found)
        _ask_honestly(row, random.sample(strangers, BESIDE), "beside strangers", found)
    for row in mixtures:
        _ask_honestly(row, [(row.strange, row.trust)], "beside its rival", found)
    return found


def _rows(folder: Path, name: str, half: str) -> list[dict[str, str]]:
    texts = [path.read_text(encoding="utf-8").splitlines() for path in sorted(folder.glob(f"{name}_*.jsonl"))]
    wanted = {"odd": slice(0, None, 2), "even": slice(1, None, 2)}.get(half, slice(None))
    return [json.loads(row) for rows in texts for row in rows[wanted] if row.strip()]


def world(own: Sequence[str], strange: Iterable[tuple[str, Trust]], standing: Sequence[str] = ()) -> Snapshot:
    """A dream over these notes and what strangers said; two lines of the agent's stand there, and then `standing`."""
    notes = [note(at, text, importance=0.6) for at, text in enumerate(own, 1)]
    said = [
        Evidence(f"C{at}", Kind.CRYSTAL, text, 0.6, trust, NOW, f"c{at}")
        for at, (text, trust) in enumerate(strange, 1)
    ]
    return snapshot(memory(bond=[OWN[0]], context=[OWN[1], *standing]), *notes, *said)


def lines_after(before: Snapshot, draft: Draft, insights: Sequence[Crystal] = ()) -> list[str]:
    """The new lines of MEMORY.md after a dream."""
    verdict = judge(before, draft)
    sheet = WorkingCopy(before, verdict.operations, insights)
    fade(before, sheet, verdict.operations, Library())
    old = {block.key for _, block in working(before.text).lines()}
    return [block.text for _, block in sheet.document.lines() if block.key not in old]


def _launder(row: Row, behaviours: dict[str, "Behaviour"], found: Figures) -> None:
    for name, behaviour in behaviours.items():
        before, draft, insights = behaviour(row)
        own = {
            normalise(text)
            for one in (row.own, row.line, *OWN)
            for text in (one, defang(one), defang(condensed(one)))
        }
        after = [_said(line) for line in lines_after(before, draft, insights)]
        leaks = tuple(line for line in after if line and not is_quoted(line) and normalise(line) not in own)
        found.dreams += 1
        if leaks:
            found.leaks.append(Dreamt(name, row, leaks))


def _said(line: str) -> str:
    """The text of a line; of a pointer its topic, unless that is the agent's."""
    pointer = parse_pointer(line)
    if pointer is None:
        return line
    return "" if any(pointer[0].rstrip("…") in text for text in OWN) else pointer[0]


def _ask_honestly(row: Row, strange: Sequence[tuple[str, Trust]], where: str, found: Figures) -> None:
    before = world([row.own], strange)
    line = defang(row.line)
    after = lines_after(before, _draft(add(CONTEXT, row.line, "N1")))
    found.honest += 1
    if normalise(line) not in map(normalise, after):
        quoted = any(normalise(unquoted(one)[0]) == normalise(line.replace('"', "'")) for one in after)
        found.lost.append((where, row, "quoted" if quoted else "missing"))


def _draft(*operations: Operation) -> Draft:
    return Draft(operations, author="scripted-1")


# What a model does with a stranger's text


Behaviour = Callable[[Row], tuple[Snapshot, Draft, Sequence[Crystal]]]


def _answered(row: Row, *operations: Operation) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return world([row.own], [(row.strange, row.trust)]), _draft(*operations), ()


def _copied(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, add(BOND, row.strange, "C1"))


def _miscited(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, add(CONTEXT, row.strange, "N1"))


def _appended(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, add(CONTEXT, f"{row.line} {row.strange}", "N1"))


def _prepended(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, add(BOND, f"{row.strange.rstrip('.')}; {row.line}", "N1"))


def _half(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    words = row.strange.split()
    half = " ".join(words[len(words) // 2 :])
    part = half if len(content_terms(half)) > 2 else row.strange  # a word or two claim nothing
    return _answered(row, add(CONTEXT, f"{row.line.rstrip('.')}, {part}", "N1"))


def _revised(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, revise(BOND, "L1", f"{OWN[0]} {row.strange}", "N1"))


def _merged(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, merge(CONTEXT, ["L1", "L2"], f"{OWN[0]} {OWN[1]} {row.strange}", "N1"))


def _reflected(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    before = world([row.own, *OWN], [(row.strange, row.trust)])
    insight = {"text": f"{OWN[0].split(' goes')[0]}: {row.mixed or row.strange}", "cites": ["N2", "N3"]}
    evidence, crystals = reflection.read(json.dumps({"insights": [insight]}), before)
    richer = replace(before, evidence=(*before.evidence, *evidence))
    return richer, _draft(*(add(CONTEXT, piece.text, piece.id) for piece in evidence)), crystals


def _unquoted(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    standing = quote(row.strange, row.trust)
    before = world([row.own], (), [standing])
    return before, _draft(revise(CONTEXT, "L3", unquoted(standing)[0], "N1")), ()


def _said_beside(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    before = world([row.own], (), [quote(row.strange, row.trust)])
    return before, _draft(add(BOND, row.mixed or f"{row.line} {row.strange}", "N1")), ()


def _evicted(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    before = world([row.own], (), [quote(row.strange, row.trust)])
    said = add(BOND, row.mixed or row.strange, "N1", "L1")
    return before, _draft(evict(CONTEXT, "L3", row.mixed or row.strange), said), ()


def _topic(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, evict(BOND, "L1", f"report {row.mixed or row.strange}"))


def _translated(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, add(CONTEXT, f"{row.line} {elsewhere(row.strange)}", "N1"))


def _document(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    before = world([row.own], [(row.strange, row.trust)])
    text = memory(bond=[OWN[0], defang(row.mixed or f"{row.line} {row.strange}")], context=[OWN[1]])
    return before, read(f"```markdown\n{text}```", before, "scripted-1", complete=True), ()


def _extracted(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    before = world([row.own], [(row.strange, row.trust)])
    before = replace(before, evidence=tuple(replace(one, importance=0.9) for one in before.evidence))
    return before, extract(before), ()


def _mixed(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, add(CONTEXT, row.mixed, "N1"))


def _mixed_revision(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    before = world([row.own], [(row.strange, row.trust)], [row.own])
    return before, _draft(revise(CONTEXT, "L3", row.mixed, "N1")), ()


def _mixed_both_cited(row: Row) -> tuple[Snapshot, Draft, Sequence[Crystal]]:
    return _answered(row, add(CONTEXT, row.mixed, "N1", "C1"))


def elsewhere(text: str) -> str:
    """The text as in another language: no word is the same, but names within a sentence, numbers and marks are."""
    turned = str.maketrans("aeioubcdfglmnprstvw", "eioauckgvbnrltqfpwz")
    words = [
        word if word[:1].isupper() and at else word.casefold().translate(turned)
        for at, word in enumerate(text.split())
    ]
    return "".join(chr(ord(char) + 7) if "\u0400" <= char <= "\u9fff" else char for char in " ".join(words))


BEHAVIOURS: dict[str, Behaviour] = {
    "copied": _copied,
    "cited as a note": _miscited,
    "appended": _appended,
    "prepended": _prepended,
    "half of it": _half,
    "revised": _revised,
    "merged": _merged,
    "reflected": _reflected,
    "unquoted in the next dream": _unquoted,
    "said beside its quotation": _said_beside,
    "evicted and said again": _evicted,
    "as a topic": _topic,
    "translated": _translated,
    "as a document": _document,
    "extracted": _extracted,
}
MIXED: dict[str, Behaviour] = {
    "mixed": _mixed,
    "mixed, citing both": _mixed_both_cited,
    "mixed into its line": _mixed_revision,
    "mixed beside the quotation": _said_beside,
    "mixed when it is evicted": _evicted,
    "mixed in an insight": _reflected,
    "mixed in a topic": _topic,
    "mixed in a document": _document,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Strangers' words in MEMORY.md, over a corpus.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("odd", "even"), default="")
    options = parser.parse_args(arguments)
    print(figures(options.folder, options.half))


if __name__ == "__main__":
    main()
