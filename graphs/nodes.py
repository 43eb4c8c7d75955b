"""Nodes of the dream graph: each unpacks the state, calls one pure function or one port, returns a typed step."""

from dataclasses import replace
from datetime import datetime

from graphs import extractive, reflection, synthesis
from graphs.approval import sort_by_policy
from graphs.eviction import evict as fade
from graphs.graph_state import Dreaming, Step
from graphs.guard import ALL_REFUSED, Verdict, erosion, judge
from graphs.input_budget import capped
from graphs.ports import Answer, Model, Ports, Request
from graphs.working_copy import WorkingCopy
from state.codec import decode, encode
from state.crystals.crystal import Crystal
from state.document.operations import Refusal
from state.dream import Draft, Dream, Evidence, Kind, Reason, Snapshot, Usage
from state.errors import CeilingError, ModelError, ReplyError, UnattendedError

MAX_ATTEMPTS = 3


def gather(state: Dreaming, *, ports: Ports) -> Step:
    """Old state, scratch notes, new crystals and signals, read once and capped to the model's context."""
    snapshot = ports.memory.read(state["dream"], Reason(state["reason"]), datetime.fromisoformat(state["now"]))
    window = ports.model.context_window if ports.model else None
    read = capped(snapshot, window)
    refusals = [encode(_not_asked(read))] if ports.model and read.unasked else []
    return {
        "snapshot": encode(read),
        "attempt": 0,
        "usage": encode(Usage()),
        "feedback": [],
        "refusals": refusals,
    }


def reflect(state: Dreaming, *, ports: Ports) -> Step:
    """Insights from clusters of what is new; a reply that cannot be read costs its tokens and nothing else."""
    snapshot = decode(Snapshot, state["snapshot"])
    clusters = reflection.groups(snapshot) if ports.model and ports.reflects else []
    if ports.model is None or not clusters:
        return {"insights": "[]"}
    usage = decode(Usage, state["usage"])
    try:
        answer, usage = _asked(ports.model, reflection.request(snapshot, clusters), usage, reflection.prompt().label)
        evidence, crystals = _learnable(snapshot, *reflection.read(answer.text, snapshot))
    except CeilingError as error:
        # The synthesis may still fit under the ceiling, and matters more.
        noted = replace(snapshot, problems=(*snapshot.problems, f"reflection: {error}"))
        return {"snapshot": encode(noted), "insights": "[]"}
    except ReplyError as error:
        noted = replace(snapshot, problems=(*snapshot.problems, f"reflection: {error}"))
        return {"snapshot": encode(noted), "insights": "[]", "usage": encode(_charged(usage, error))}
    except ModelError as error:
        return {"insights": "[]", "snapshot": encode(_fallen_back(ports, snapshot, error)), "fallback": True}
    richer = replace(snapshot, evidence=(*snapshot.evidence, *evidence))
    return {"snapshot": encode(richer), "insights": encode(list(crystals)), "usage": encode(usage)}


def synthesize(state: Dreaming, *, ports: Ports) -> Step:
    """Draft operations: by the model, or extractive without one or when it fails and that is allowed."""
    snapshot = decode(Snapshot, state["snapshot"])
    attempt = state["attempt"] + 1
    if ports.model is None or state.get("fallback") or not has_news(snapshot):
        return {"draft": encode(extractive.extract(snapshot)), "attempt": attempt}
    usage = decode(Usage, state["usage"])
    try:
        request = synthesis.request(snapshot, state["feedback"])
        answer, usage = _asked(ports.model, request, usage, synthesis.prompt().label)
        draft = synthesis.read(answer.text, snapshot, answer.model, complete=answer.finish_reason != "length")
    except ReplyError as error:
        draft = Draft((), refused=(Refusal("schema", "dream", str(error)),), author=ports.model.name)
        return {"draft": encode(draft), "attempt": attempt, "usage": encode(_charged(usage, error))}
    except ModelError as error:
        noted = _fallen_back(ports, snapshot, error)
        draft = extractive.extract(noted)
        return {"snapshot": encode(noted), "draft": encode(draft), "attempt": attempt, "fallback": True}
    return {"draft": encode(draft), "attempt": attempt, "usage": encode(usage)}


def guard(state: Dreaming, *, ports: Ports) -> Step:
    """Let through what may be written; a whole draft that is refused goes back with the reasons, twice at most."""
    snapshot, draft = decode(Snapshot, state["snapshot"]), decode(Draft, state["draft"] or "")
    verdict = judge(snapshot, draft)
    refusals = [*state.get("refusals", []), *(encode(one) for one in _every(verdict))]
    step: Step = {"verdict": encode(verdict), "refusals": refusals, "feedback": list(verdict.reasons)}
    last = state["attempt"] >= MAX_ATTEMPTS
    given_up = draft.author == extractive.AUTHOR or (last and ports.on_failure != "extractive")
    if verdict.refusal is None or (given_up and verdict.refusal.guard == ALL_REFUSED):
        # Bad operations alone sink no dream: what else there is (important notes, counted lines) applies.
        return {**step, "outcome": "passed"}
    if draft.author == extractive.AUTHOR:
        return {**step, "outcome": "refused"}
    if not last:
        # The number makes the next request another one: the same request would be answered from the ledger.
        feedback = [*verdict.reasons, f"that was answer {state['attempt']} of {MAX_ATTEMPTS}"]
        return {**step, "feedback": feedback, "outcome": "again"}
    if ports.on_failure == "extractive":
        return {**step, "outcome": "again", "fallback": True}
    return {**step, "outcome": "refused"}


def evict(state: Dreaming, *, ports: Ports) -> Step:
    """Stage what waits for the owner, fit the budget with verified pointers, judge the result, write it down."""
    snapshot = decode(Snapshot, state["snapshot"])
    by_policy = sort_by_policy(snapshot, decode(Verdict, state["verdict"]))
    verdict = by_policy.verdict
    insights = decode(tuple[Crystal, ...], state["insights"])
    # What a person wrote is not taken apart by rules.
    takes_in = verdict.author != extractive.AUTHOR
    copy = WorkingCopy(snapshot, verdict.operations, insights, takes_in=takes_in)
    fade(snapshot, copy, verdict.operations, ports.memory)
    refusal = _last_look(snapshot, copy, ports)
    held = [encode(one) for one in by_policy.refused]
    refusals = [*state["refusals"], *held, *(encode(one) for one in copy.refused)]
    if refusal is not None:
        return {"refusals": [*refusals, encode(refusal)], "feedback": [refusal.figures], "outcome": "refused"}
    spent = (ports.clock() - snapshot.now).total_seconds()
    dream = copy.dream(
        [decode(Refusal, one) for one in (*state["refusals"], *held)],
        verdict.author,
        decode(Usage, state["usage"]),
        spent,
    )
    dream = replace(dream, staged=by_policy.staged)
    if not _took_in(snapshot, verdict):
        if dream.changes_nothing:
            refusal = Refusal("nothing taken in", "dream", "the answer changes nothing and names no note as consumed")
            return {"refusals": [*refusals, encode(refusal)], "feedback": [refusal.figures], "outcome": "refused"}
        left = tuple(one for one in dream.crystals if one not in snapshot.notes)
        dream = replace(dream, taken=(), dreamt=(), crystals=left, notes=0)
    return {"record": encode(dream), "refusals": refusals, "outcome": "ready"}


def commit(state: Dreaming, *, ports: Ports) -> Step:
    """Commit the dream: write MEMORY.md and the stores through the port."""
    dream = ports.memory.commit(decode(Dream, state["record"] or ""))
    return {"record": encode(dream), "outcome": "committed"}


def has_news(snapshot: Snapshot) -> bool:
    """Whether there is anything to pay a model for: counted lines and old questions are no new input."""
    return any(
        piece.kind in {Kind.NOTE, Kind.CRYSTAL, Kind.INSIGHT, Kind.OLD_TEXT} and piece.id not in snapshot.unasked
        for piece in snapshot.evidence
    )


def after_guard(state: Dreaming) -> str:
    """Where the edge from guard leads."""
    return {"again": "synthesize", "passed": "evict"}.get(state["outcome"], "refused")


def after_evict(state: Dreaming) -> str:
    """Where the edge from evict leads."""
    return "commit" if state["outcome"] == "ready" else "refused"


def _took_in(snapshot: Snapshot, verdict: Verdict) -> bool:
    """Whether an answer cites or names anything: one that does not leaves its notes pending."""
    said = {*verdict.consumed, *(cite for one in verdict.operations for cite in one.cites)}
    notes = [piece for piece in snapshot.evidence if piece.kind is Kind.NOTE]
    return verdict.author == extractive.AUTHOR or not notes or any(piece.id in said for piece in snapshot.evidence)


def _not_asked(snapshot: Snapshot) -> Refusal:
    count = len(snapshot.unasked)
    what = "1 input counts" if count == 1 else f"{count} inputs count"
    figures = f"{what} as taken in without the model, which was refused over them in three dreams"
    return Refusal("refused before", "inputs", figures)


def _learnable(
    snapshot: Snapshot, evidence: tuple[Evidence, ...], crystals: tuple[Crystal, ...]
) -> tuple[tuple[Evidence, ...], tuple[Crystal, ...]]:
    """Return these insights without those that hold what is forgotten."""
    held = {crystal.id for crystal in crystals if snapshot.forgotten.found(crystal.text)}
    return (
        tuple(piece for piece in evidence if piece.crystal not in held),
        tuple(crystal for crystal in crystals if crystal.id not in held),
    )


def _asked(model: Model, request: Request, usage: Usage, prompt: str) -> tuple[Answer, Usage]:
    answer = model.ask(request)
    paid = Usage(answer.model, 1, answer.tokens_in + answer.tokens_out, answer.usd, (prompt,))
    return answer, usage.plus(paid)


def _charged(usage: Usage, error: ReplyError) -> Usage:
    """Charge a reply that cannot be read: it was still paid for."""
    answer = getattr(error, "answer", None)
    if answer is None:
        return usage
    return usage.plus(Usage(answer.model, 1, answer.tokens_in + answer.tokens_out, answer.usd))


def _fallen_back(ports: Ports, snapshot: Snapshot, error: ModelError) -> Snapshot:
    """Note in the snapshot why there is no model; raise the error again where that is not allowed."""
    allowed = ports.on_failure == "extractive" or isinstance(error, UnattendedError)
    if not allowed or isinstance(error, CeilingError):
        raise error
    return replace(snapshot, problems=(*snapshot.problems, f"the model failed, extractive instead: {error}"))


def _every(verdict: Verdict) -> tuple[Refusal, ...]:
    return (*((verdict.refusal,) if verdict.refusal else ()), *verdict.refused)


def _last_look(snapshot: Snapshot, copy: WorkingCopy, ports: Ports) -> Refusal | None:
    """Refuse a document that has lost too much over many dreams, now that the pointers are known to resolve."""
    pointers = (*copy.pointers, *copy.retired, *ports.memory.known_pointers())
    changed = {death.text for death in copy.deaths}
    return erosion(snapshot.best, copy.document, changed, {pointer.keywords for pointer in pointers})
