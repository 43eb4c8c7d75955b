"""Text: replies as people at a terminal and agents read them, with their owner's times; programs get JSON.

Replies quote memory, so continuation rows of a quoted text are marked, lest one passes for another result, and
invisible characters are escaped.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from daemon.api.shapes import ago, duration, facts, listed, one_row, quoted, table
from daemon.observability.printable import ABOUT, visible
from state.text.words import counted

if TYPE_CHECKING:
    from daemon.api.daemon import DaemonStatus
    from daemon.api.operations.crystals import Superseded
    from daemon.api.operations.dreams import Dreamt
    from daemon.api.operations.memory import Difference, RestoredVersion, Versions
    from daemon.api.operations.notes import NoteTaken
    from daemon.api.operations.search import Archived, BootstrapReply, SearchHit, SearchReply, WhyReply
    from daemon.api.operations.setup import Configuration
    from daemon.api.operations.signals import Mood
    from daemon.api.operations.upkeep import Findings
    from daemon.journal.crystal import Evidence
    from daemon.journal.ranks import SearchSignals
    from daemon.journal.story import Entry, LineStory
    from daemon.journal.why_not import Answer
    from daemon.upkeep.examine import Finding
    from daemon.upkeep.forget import Receipt
    from daemon.upkeep.repair import Repair
    from daemon.workspace.status import LastDream, Status
    from state.changes.change import Change, CurrentLine
    from state.dream import Dream
    from state.stores.history.bootstraps import BootstrapReceipt

# Characters of a search that fit into one answer, some 8,000 tokens; the first result is always shown.
MOST_FOUND = 32_000
_MOST_EVIDENCE, _MOST_ENTRIES, _MOST_QUOTED = 10, 10, 1_000
_MOST_ENTRIES = 10
_MOST_SHORT = 160
_BAR = 20


def _short(text: str) -> str:
    """Return the first 160 characters of a text in one row, and `…` if there are more."""
    row = one_row(text)
    return f"{row[:_MOST_SHORT]}{'…' if len(row) > _MOST_SHORT else ''}"


def _cut(text: str) -> str:
    """Return at most 1,000 characters of a text in one row, and how many more there are."""
    more = len(text) - _MOST_QUOTED
    return one_row(text) if more <= 0 else f"{one_row(text[:_MOST_QUOTED])}… [{counted(more, 'character')} more]"


# ---------------------------------------------------------------- notes, mood


def note_text(reply: "NoteTaken") -> str:
    """Confirm a note, with its time and importance."""
    return f"noted {reply.at:%Y-%m-%d %H:%M:%S %Z}, importance {reply.importance:g}; the next search finds it"


def mood_text(levels: "Mood") -> str:
    """Show the levels, the mood, and the events of the requested hours that raised them."""
    every = zip(("dopamine", "cortisol", "oxytocin"), levels.now.levels, strict=True)
    rows = [f"{name:<9} {level:.2f} {'█' * round(level * _BAR):<{_BAR}}".rstrip() for name, level in every]
    felt = [f"{one.after.at:%Y-%m-%d %H:%M %Z}  {one.event}  {one_row(one.cause)}".rstrip() for one in levels.events]
    more = [f"and {counted(levels.more, 'other event')}"] if levels.more else []
    return "\n".join([*rows, f"mood      {levels.mood}", *felt, *more])


def superseded_text(reply: "Superseded") -> str:
    """Say which of the two memories holds now."""
    older = f"{'holds again' if reply.undone else 'superseded'}: {one_row(reply.older)}"
    return f"{older}\nholds: {one_row(reply.newer)}"


# ---------------------------------------------------------------- search


def search_text(reply: "SearchReply") -> str:
    """Show the results, best first, as far as they fit into one answer."""
    left = [f"{reply.unlikely} near and unlikely"] if reply.unlikely else []
    left += [f"{reply.over} superseded or answered"] if reply.over else []
    those = "it" if reply.unlikely + reply.over == 1 else "them"
    more = [f"Left out: {' and '.join(left)}; all: true (--all) shows {those}"] if left else []
    if not (reply.hits or reply.archived or reply.questions):
        nothing = "Nothing that is likely to answer was found" if left else "Nothing was found"
        return "\n".join([f"{nothing}. 'dreamd why-not TEXT' says why a thing is missing.", *more])
    head = ABOUT
    head += "" if reply.good else " Nothing answers this well; what follows is the nearest."
    head += "" if "dense" in reply.arms else " It was searched by words only."
    found = [_hit_rows(number, hit) for number, hit in enumerate(reply.hits, 1)]
    found += [_asking_rows(one) for one in reply.questions]
    found += [_archived_rows(one) for one in reply.archived]
    rows, room, left_out = [head], MOST_FOUND, 0
    for place, one in enumerate("\n".join(each) for each in found):
        room -= len(one)
        if room >= 0 or not place:
            rows.append(one)
        else:
            left_out += 1
    if left_out:
        what = f"{counted(left_out, 'other result')} did not fit"
        rows.append(f"{what} into one answer: ask with words of what you miss, and a lower limit")
    return "\n".join((*rows, *more))


def how_likely(chance: float) -> str:
    """Return a chance in [0, 1] in words: about half of the results called likely answer the query."""
    return "likely" if chance >= 0.4 else "possible" if chance >= 0.15 else "unlikely"


def _archived_rows(one: "Archived") -> Iterator[str]:
    yield from quoted("- ", one.text)
    age = duration(one.age_days * 86_400)
    yield f"   {listed(f'left session {one.session}', f'trust {one.trust}', f'{age} old', f'id {one.id}')}"


def _asking_rows(one: "SearchHit") -> Iterator[str]:
    yield from quoted("? ", one.text)
    yield f"   {listed('open question', f'{duration(one.age_days * 86_400)} old', f'crystal {one.id[:12]}')}"


def _hit_rows(number: int, hit: "SearchHit") -> Iterator[str]:
    yield from quoted(f"{number}.", hit.text)
    if hit.superseded_at is not None:
        yield f"   superseded {hit.superseded_at:%Y-%m-%d} by: {one_row(hit.superseded_by)}"
    if hit.later:
        yield f'   later: "{_short(hit.later.text)}", {hit.later.at:%-d %b %Y}'
    for former in hit.formerly:
        what = "draft" if former.is_draft else "formerly"
        yield f"   {what}, {former.at:%Y-%m-%d}: {one_row(former.text)}"
    place = f"in MEMORY.md ({hit.line})" if hit.line else ""
    kind = (how_likely(hit.score), place, hit.origin, hit.kind, f"trust {hit.trust}", hit.context)
    age = f"{duration(hit.age_days * 86_400)} old"
    yield f"   {listed(*kind, age, hit.provenance, f'crystal {hit.id[:12]}')}"
    if hit.signals:
        yield from (f"   {row}" for row in _reasons(hit.signals))


def _reasons(signals: "SearchSignals") -> Iterator[str]:
    """Yield rows that explain a result's rank: shares of its relevance, boosts, and neighbours in its session."""
    if signals.shares:
        shares = [
            f"{one.name} {one.share:+.2f} ({one.value:.2f} x {one.weight:g})" for one in signals.shares if one.value
        ]
        yield f"relevance {signals.relevance:.2f}: {', '.join(shares) or 'nothing'}"
    else:
        yield "not found itself: it gives a result below another value"
    if signals.cosine is not None and signals.usual is not None:
        yield f"meaning: cosine {signals.cosine:.2f}, of unrelated texts {signals.usual:.2f}"
    if signals.boosts:
        yield f"moved by {', '.join(f'{one.name} x {one.factor:.2f}' for one in signals.boosts)}"
    for one in signals.neighbours:
        said = f"{one.speaker}: {one.text}" if one.speaker else one.text
        yield f"{f'{-one.place} before' if one.place < 0 else f'{one.place} after'}: {one_row(said)}"


def bootstrap_text(reply: "BootstrapReply") -> str:
    """Return the bootstrap under the heading that keeps transcripts from teaching it again."""
    return f"{ABOUT}\n\n{reply.text}" if reply.text else "The memory is empty."


# ---------------------------------------------------------------- why, why not


def why_text(reply: "WhyReply") -> str:
    """Show the changes of each matching line."""
    return "\n\n".join([ABOUT, *("\n".join(_story_rows(one)) for one in reply.lines)])


def _story_rows(line: "LineStory") -> Iterator[str]:
    yield f"{line.id or '(new)'}  {line.section or 'above the sections'}: {one_row(line.text)}"
    if not line.entries:
        yield "  written by hand; no dream has met it yet"
    for one in line.entries[:_MOST_ENTRIES]:
        yield f"  {_entry_row(one)}"
        for old in one.old:
            if old.id != line.id:
                yield f"    replaced {old.id}: {_cut(old.text)}"
        for piece in one.evidence[:_MOST_EVIDENCE]:
            yield from (f"    {row}" for row in _evidence_rows(piece))
        if left_out := len(one.evidence[_MOST_EVIDENCE:]):
            yield f"    and {left_out} more"
    if left_out := len(line.entries[_MOST_ENTRIES:]):
        yield f"  and {counted(left_out, 'earlier change')}"
    if not line.stands:
        now, words = line.now and f"now: {line.now}", line.keywords and f"search: {line.keywords}"
        kept = f"kept as crystal {line.crystal[:12]}" if line.crystal else "kept in 'dreamd history'"
        yield f"  {listed('it has left', now, words, kept)}"


def _entry_row(one: "Entry") -> str:
    """Return a change in a row: its name, what it did, when, and who made it."""
    head = f"{one.name or f'version {one.version}'} {one.why} {one.at:%Y-%m-%d %H:%M %Z}"
    from state.dream import HUMAN, MERGED  # late: short commands import this module

    if one.cause in (HUMAN, MERGED):
        return f"{head} by its owner in MEMORY.md"
    if not one.dream:
        return listed(head, f"by a {one.cause}" if one.cause else "the record of its version is gone")
    by = " ".join([one.author, *(f"({prompt})" for prompt in one.prompts)]).strip()
    return listed(head, f"{one.cause} {one.dream} ({one.reason})", by and f"by {by}")


def _evidence_rows(one: "Evidence") -> Iterator[str]:
    if one.at is None:
        yield f"rests on crystal {one.id[:12]}, which was forgotten"
        return
    where = "; ".join(one.sources[:_MOST_EVIDENCE]) or "no file"
    made = one.parents and f"made from {', '.join(parent[:12] for parent in one.parents)}"
    heard = one.heard and f"heard: {one.heard}"
    about = listed(one.origin, f"trust {one.trust}", heard, f"{one.at:%Y-%m-%d}", where, made or "")
    yield f"rests on crystal {one.id[:12]} ({about}): {_cut(one.text)}"
    if one.superseded_at:
        by = f"{one.superseded_at:%Y-%m-%d} by crystal {one.superseded_by[:12]}, found by {one.found_by}"
        yield f"  superseded {by}: {_cut(one.holds_now)}"
        yield f"  (both hold? dreamd supersede --undo {one.id[:12]} {one.superseded_by[:12]})"


def why_not_text(answer: "Answer") -> str:
    """List the reasons, with advice for each."""
    rows = list[str]()
    if (given := answer.receipt) is not None:
        how = f"{given.how} ({given.agent})" if given.agent else given.how
        rows.append(f"last read {given.at:%Y-%m-%d %H:%M %Z} by {how}: version {given.version}")
    for reason in answer.reasons:
        rows += [said] if (said := one_row(reason.text)) else []
        rows.append(f"  {one_row(reason.what)}")
        rows += [f"  {reason.advice}"] if reason.advice else []
    return "\n".join(rows + ([f"and {answer.more} more; ask with more words"] if answer.more else []))


# ---------------------------------------------------------------- versions


def versions_text(reply: "Versions") -> str:
    """List the versions in a table."""
    if not reply.versions:
        return "no version yet; 'dreamd dream' makes the first"
    rows = [
        (
            str(one.number),
            f"{one.at:%Y-%m-%d %H:%M %Z}",
            f"{one.cause}: {one.reason}" if one.reason else one.cause,
            *(one.added, one.revised, one.evicted, one.notes, one.tokens),
            f"{one.usd:.4f}",
            one.model,
        )
        for one in reply.versions
    ]
    return table("version,when,cause,added,revised,evicted,notes,tokens,usd,by", rows)


def difference_text(reply: "Difference") -> str:
    """Return the diff, or that there is none."""
    return visible(reply.diff) or f"no difference between {reply.old} and {reply.new}"


def restored_text(done: "RestoredVersion") -> str:
    """Say which version it is now, and show the diff."""
    from daemon.journal.dream import unified_diff

    dream = done.dream
    changed = unified_diff(dream.before, dream.after, "as it was", f"version {dream.number}")
    head = f"restored, as version {dream.number}; {counted(done.pending, 'note')} pending"
    return "\n".join(filter(None, [head, visible(changed)]))


# ---------------------------------------------------------------- dreams


def dream_text(reply: "Dreamt") -> str:
    """Show what the dream changed, what was refused, and what it cost."""
    outcome = reply.outcome
    if outcome is None:
        return "the daemon dreams when it comes to it"
    dream = outcome.dream
    if outcome.mode == "dry":
        from daemon.journal.dream import unified_diff

        diff = unified_diff(dream.before, dream.after, "as it is", "after this dream")
        return f"{visible(diff)}\n{_cost(dream)}"
    rows = [f"version {dream.number}, {len(dream.after):,} characters"]
    if dream.joined:
        rows.append("MEMORY.md was edited meanwhile: the edit is kept, and what the dream changed stands beside it")
    rows += [f"  {row}" for row in change_rows(dream)]
    rows += [f"  refused by {one.guard} ({one.scope}): {one_row(one.figures)}" for one in outcome.refused]
    if outcome.proposals:
        waits = "waits" if outcome.proposals == 1 else "wait"
        rows.append(f"  {counted(outcome.proposals, 'proposal')} {waits} for you: 'dreamd review'")
    rows.append(_cost(dream))
    if outcome.pending:
        number = f"{outcome.pending:,}+ notes" if outcome.more else counted(outcome.pending, "note")
        why = "left for the next dreams" if dream.waiting else "what came meanwhile"
        rows.append(f"{number} pending: {why}")
    return "\n".join(rows)


def change_rows(dream: "Dream") -> Iterator[str]:
    """Yield a row for each line that was added, revised or evicted.

    A line that came and left in the same dream, for lack of room, is only counted.
    """
    born = {line.id for line in dream.came}
    passing = {line.id for line, _ in dream.left if line.id in born}
    unshown = 0
    for change in dream.changes:
        come = [line for line in change.come if line.id not in passing and line.section != "Crystal Pointers"]
        gone = [line for line in change.gone if line.id not in passing]
        unshown += sum(line.id in passing and line.section != "Crystal Pointers" for line in change.gone)
        yield from _change_rows(change, come, gone)
    if unshown:
        yield f"{counted(unshown, 'line')} had no room and went straight to crystals"


def _change_rows(change: "Change", come: Sequence["CurrentLine"], gone: Sequence["CurrentLine"]) -> Iterator[str]:
    """Yield a row for each line that came or left in one change."""
    from state.document.operations import Why
    from state.document.pointer import parse_pointer

    for line in come:
        if gone:
            was = "; ".join(one_row(old.text) for old in gone)
            yield f"~ {line.section}: {one_row(line.text)} (was: {was})"
        else:
            yours = " (yours)" if line.trust == "owner" and not change.evidence else ""
            yield f"+ {line.section}: {one_row(line.text)}{yours}"
    if come:
        return
    pointer = next((parsed for line in change.come if (parsed := parse_pointer(line.text))), None)
    where = f"search: {pointer[1]}" if pointer else "its crystal"
    ends = {Why.EVICTED: f"(to {where})", Why.DELETED: "(you deleted it)", Why.ANSWERED: "(answered)"}
    for line in gone:
        if change.why in ends:
            yield f"- {line.section}: {one_row(line.text)} {ends[change.why]}"


def _cost(dream: "Dream") -> str:
    usage = dream.usage
    if not usage.calls:
        return f"{dream.author} (without a model), {counted(dream.notes, 'note')}, {dream.seconds:.1f} s"
    price = f"${usage.usd:.4f}" if usage.usd else "price not known"
    author = dream.author if dream.author == usage.model else f"{dream.author} after {usage.model}"
    paid = f"{counted(usage.calls, 'call')}, {usage.tokens:,} tokens, {price}"
    return f"{author}: {paid}, {counted(dream.notes, 'note')}, {dream.seconds:.1f} s"


# ---------------------------------------------------------------- status


def status_text(value: "Status") -> str:
    """Show the status of a workspace, a row for each fact."""
    pending, spending, service, waiting = value.pending, value.spending, value.service, value.proposals
    notes = f"{pending.notes:,}+ notes" if pending.more else counted(pending.notes, "note")
    oldest = f", the oldest for {duration(pending.oldest_seconds)}" if pending.notes else ""
    verb, them = ("waits", "it") if waiting == 1 else ("wait", "them")
    own = (spending.usd, spending.usd_per_day, spending.tokens, spending.tokens_per_day)
    every = (spending.all_usd, spending.all_usd_per_day, spending.all_tokens, spending.all_tokens_per_day)
    return facts(
        *([("project", value.project)] if value.project not in ("", value.workspace) else []),
        ("workspace", value.workspace),
        ("MEMORY.md", f"version {value.version}, {value.characters:,} characters"),
        ("last dream", _last_dream(value.last_dream, value.at)),
        ("next dream", _next_dream(value)),
        ("bootstrap", _last_bootstrap(value.last_bootstrap, value.at)),
        ("notes", f"{notes} pending{oldest}"),
        ("crystals", _crystals(value.crystals, value.waiting_embeddings)),
        ("spent today", f"{_spent(*own)}, {counted(spending.calls, 'call')}"),
        ("spent by all", f"{_spent(*every)}, over all workspaces"),
        ("withheld", value.withheld and f"{counted(value.withheld, 'text')}: forgotten"),
        ("breaker", spending.breaker and f"open: {spending.breaker}"),
        ("daemon", service and f"process {service.pid}, since {service.since:%Y-%m-%d %H:%M %Z}"),
        ("held by", None if service else value.holder),
        ("review", waiting and f"{counted(waiting, 'proposal')} {verb}; 'dreamd review' shows {them}"),
        *(("refused", f"{one.guard} ({one.scope}): {one.figures}") for one in value.rejections),
        *(("problem", one) for one in value.problems),
    )


def _crystals(stages: Mapping[str, int], waiting: int) -> str:
    kinds = ", ".join(f"{number} {stage}" for stage, number in stages.items())
    embeddings = f"; {waiting} to embed" if waiting else ""
    return f"{sum(stages.values()):,}" + (f" ({kinds})" if kinds else "") + embeddings


def _last_dream(last: "LastDream | None", now: datetime) -> str:
    if last is None:
        return "never ('dreamd dream' folds in what is new)"
    how = f"{ago(last.at, now)}, {last.reason}: {last.outcome}"
    version = f"version {last.version}" if last.version else ""
    paid = f"{last.tokens:,} tokens, ${last.usd:.4f}" if last.tokens else ""
    return listed(how, version, last.model, paid, last.detail)


def _last_bootstrap(last: "BootstrapReceipt | None", now: datetime) -> str:
    """Describe the last bootstrap that an agent got."""
    if last is None:
        return "no agent has read it yet ('dreamd init' shows how to connect one)"
    how = f"{ago(last.at, now)}, {last.how}{f' ({last.agent})' if last.agent else ''}: version {last.version}"
    older = f"{'more than ' if last.more else ''}{last.left_out} left out" if last.left_out or last.more else ""
    cut, everywhere = last.cut.budget + last.cut.host, last.cut.everywhere
    return listed(
        how,
        f"{last.characters:,} characters",
        counted(last.notes, "note"),
        older,
        f"MEMORY.md cut to {last.budget:,}" if last.truncated else "",
        f"{counted(cut, 'line')} left out ('dreamd why-not' says why)" if last.truncated and cut else "",
        f"{counted(everywhere, 'line')} of the global workspace left out" if everywhere else "",
    )


def _next_dream(value: "Status") -> str:
    service = value.service
    if service is None or service.at is None or service.dreaming:
        return value.next_dream
    seconds = (service.at - value.at).total_seconds()
    return f"{'now' if seconds < 1 else f'in {duration(seconds)}'}: {service.upcoming}"


def _spent(usd: float, usd_per_day: float, tokens: int, tokens_per_day: int) -> str:
    return f"${usd:.4f} of ${usd_per_day:.2f}, {tokens:,} of {tokens_per_day:,} tokens"


def daemon_text(overview: "DaemonStatus") -> str:
    """Describe the daemon, and each workspace that it keeps."""
    daemon = overview.daemon
    waiting = sum(not one.kept and one.problem is None for one in daemon.workspaces)
    about = facts(
        ("daemon", f"process {daemon.pid}, version {daemon.version}, since {daemon.since:%Y-%m-%d %H:%M %Z}"),
        ("listens at", daemon.socket + (f" and {daemon.http}" if daemon.http else "")),
        ("dreams", f"{daemon.dreaming} running, {daemon.waiting} waiting"),
        *(("problem", one) for one in daemon.problems),
        *(("refused", f"{kept.root}: {kept.problem}") for kept in daemon.workspaces if kept.problem is not None),
        ("starting", waiting and f"{counted(waiting, 'workspace')} of {len(daemon.workspaces)} yet to be taken up"),
    )
    return "\n\n".join([about, *map(status_text, overview.workspaces)])


# ---------------------------------------------------------------- upkeep, configuration


def receipt_text(receipt: "Receipt") -> str:
    """Show what was (or would be) forgotten, and what is left of it."""
    if receipt.lifted or not receipt.cut:
        return "it may be learnt again" if receipt.lifted else "it was not forgotten; nothing was changed"
    rows = ["an earlier forgetting was interrupted; it is finished with this one"] if receipt.went_on else []
    nowhere = "it was nowhere; it will not be learnt"
    rows.append("would go:" if receipt.dry_run else "forgotten:" if receipt.traces else nowhere)
    for number, said in enumerate(receipt.texts, 1):
        places = ", ".join(f"{place.kind} {place.id}" for place in said.places)
        rows.append(f"  {number}. {_short(said.text)}")
        rows.append(f"     {places}{', in other words' if said.derived else ''}")
    rows += [f"  {trace.place}: {trace.count:,}" for trace in receipt.traces]
    if not receipt.dry_run:
        left = "nothing of it is left" if receipt.clean else "some of it is left"
        rows.append(f"searched afterwards: {counted(receipt.files, 'file')}, {receipt.bytes:,} bytes: {left}")
        kept = f", but for what {counted(receipt.kept, 'kept text')} may say" if receipt.kept else ""
        rows.append(f"it will not be learnt again{kept}; 'dreamd forget --lift' changes that")
        rows.append(f"known again: {receipt.recognised}")
    return "\n".join([*rows, *(f"  {left.place}: {left.count:,}, {left.why}" for left in receipt.left)])


def findings_text(found: "Findings") -> str:
    """List the result of every check."""
    return "\n".join(map(_finding, found.findings))


def _finding(one: "Finding") -> str:
    return f"{one.level:<8} {one.about:<13} {one.what}" + (f"; {one.advice}" if one.advice else "")


def repair_text(done: "Repair") -> str:
    """Show what was broken and repaired, what is still wrong, and where the originals are."""
    word, verb, rows = *(("broken", "would be done") if done.dry else ("mended", "done")), list[str]()
    for mend in done.mends:
        rows.append(f"{word:<8} {mend.about:<13} {mend.wrong}; {verb}: {mend.deed}")
        rows += [f"{'':<22} {result}" for result in mend.results]
    rows += map(_finding, done.left)
    if done.kept:
        rows.append(f"{'kept':<8} {'originals':<13} in {done.aside}; when everything is well: rm -r '{done.aside}'")
        rows += [f"{'':<22} {path}" for path in done.kept]
    return "\n".join(rows if done.mends else [*rows, "nothing that can be mended is broken; nothing was changed"])


def configuration_text(shown: "Configuration") -> str:
    """List the keys, each with its value, origin and meaning."""
    rows = list[str]()
    for one in shown.entries:
        default = "" if one.value == one.default else f" (default {one.default})"
        rows.append(f"{one.key:<30} {one.value}")
        rows.append(f"    {one.origin}{default}" + (f": {one.meaning}" if one.meaning else ""))
    return "\n".join(rows)
