"""Dream: one update of MEMORY.md: a LangGraph graph with a model, the same functions in sequence without one.

    gather -> synthesize -> guard -> evict -> commit
                   ^          |
                   +- again --+

Only the conversation travels along the edges. The first two messages contain everything that the dream reads, each
answer is played on it, and the next message says what became of each operation. Everything else follows from
replaying the answers. So a killed dream resumes at the node that was running, and pays for no answer twice. Without a
model there is nothing to resume: the dream is run again.
"""

import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from graphs import talk
from graphs.extractive import EXTRACTIVE, extract, finish, unjudged
from graphs.input_budget import whole
from graphs.places import arrange
from graphs.ports import Answer, Model, Ports, Request
from graphs.room import fit, reading_of
from graphs.sheet import Sheet
from graphs.suspects import NEWS
from prompts.replies import REPLY_SCHEMA
from state.document.asking import Ask
from state.document.operations import Refusal
from state.dream import Dream, Kind, Snapshot, Usage
from state.errors import CeilingError, ModelError, ReplyError, UnattendedError
from state.text.words import counted

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

UNSAID = "the answer changes nothing and names no note as consumed"


class Dreaming(TypedDict, total=False):
    """The state of a running dream, or what a node adds to it: the messages so far and their cost.

    `upto` are the rows of the last crystal and note that the dream has read, and the number of its next line;
    `failure` says why it continues without a model, `unusable` why the last answer has no text.
    """

    messages: Annotated[list[talk.Message], operator.add]
    usage: Annotated[list[dict[str, Any]], operator.add]
    failure: str
    unusable: str
    upto: list[int]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a dream ended: the committed dream, or None, and all refusals on the way.

    `why` says why it was refused, or why it ended without its model.
    """

    dream: Dream | None
    refused: tuple[Refusal, ...]
    why: str = ""


class Dreamer:
    """One dream over its snapshot: the nodes of the graph."""

    def __init__(self, ports: Ports, snapshot: Snapshot) -> None:
        self.ports = ports
        self.snapshot = snapshot
        self.ended: Ended | None = None

    # With a model.

    def gather(self, _: Dreaming) -> Dreaming:
        """Put everything that the dream reads into messages."""
        read = self.snapshot
        upto = [read.newest, max((row for row, _ in read.taken), default=0), read.next_line]
        return {"messages": talk.opening(self.snapshot), "upto": upto}

    def synthesize(self, state: Dreaming) -> Dreaming:
        """Ask the model once; if it fails and the settings allow it, continue without a model."""
        assert self.ports.model is not None
        try:
            answer = _asked(self.ports.model, state["messages"])
        except ReplyError as error:
            paid: Answer | None = getattr(error, "answer", None)
            said = {"role": "assistant", "content": (paid.text if paid else "") or talk.SAID_NOTHING}
            return {"messages": [said], "usage": [_paid(paid)] if paid else [], "unusable": str(error)}
        except ModelError as error:
            is_allowed = self.ports.on_failure == EXTRACTIVE or isinstance(error, UnattendedError)
            if not is_allowed or isinstance(error, CeilingError):
                raise
            return {"failure": f"the model failed, extractive instead: {error}"}
        said = {"role": "assistant", "content": answer.text}
        return {"messages": [said], "usage": [_paid(answer)], "unusable": ""}

    def guard(self, state: Dreaming) -> Dreaming:
        """Tell the model what became of each operation, if there is something left to correct or choose."""
        sheet = talk.heard(self.snapshot, state["messages"])
        further = talk.reply(sheet, len(_answers(state["messages"])))
        return {"messages": [further] if further and not state["failure"] else []}

    def evict(self, state: Dreaming) -> Dreaming:
        """Fit the file into its budget and decide how the dream ends."""
        self.ended = self._concluded(state)
        return {}

    def commit(self, state: Dreaming | None = None) -> Dreaming:
        """Commit the dream: write MEMORY.md and the stores through the port."""
        if self.ended is None and state is not None:  # resumed after an interruption
            self.ended = self._concluded(state)
        assert self.ended is not None
        if self.ended.dream is not None:
            done = self.ports.memory.commit(self.ended.dream)
            self.ended = replace(self.ended, dream=done, refused=done.refused)
        return {}

    def _concluded(self, state: Dreaming) -> Ended:
        answers = _answers(state["messages"])
        usage = Usage(prompts=(talk.prompt().label,)) if state["usage"] else Usage()
        for paid in state["usage"]:
            usage = usage.plus(Usage(**paid))
        sheet = talk.heard(self.snapshot, state["messages"])
        began = talk.begun(self.snapshot)  # counted lines are not the model's answer
        is_heard = len(sheet.heard) > len(began.heard) or len(sheet.told) > len(began.told)
        wrong = _reason(sheet, state["unusable"]) if sheet.unread and not is_heard else ""
        if not state["failure"] and answers and wrong and self.ports.on_failure != EXTRACTIVE:
            return Ended(None, sheet.refusals, wrong)
        if state["failure"] or not answers or wrong:
            return self.without_model(
                state["failure"] or f"the model gave no answer that can be read: {wrong}", usage
            )
        finish(sheet)
        if not (sheet.heard or sheet.changes or sheet.proposed) and self.snapshot.taken:
            why = f"{UNSAID}; refused: {sheet.refused[0].figures}" if sheet.refused else UNSAID
            if self.ports.on_failure == EXTRACTIVE:
                return self.without_model(why, usage)
            return Ended(None, (*sheet.refusals, Refusal("nothing taken in", "dream", UNSAID)), why)
        return self._fitted(sheet, usage.model, usage)

    # Without one.

    def without_model(self, problem: str = "", usage: Usage | None = None) -> Ended:
        """Keep each note in its own words."""
        if problem:
            self.snapshot = replace(self.snapshot, problems=(*self.snapshot.problems, problem))
        self.snapshot = whole(self.snapshot)
        out = unjudged(self.snapshot)
        if notes := sum(piece.kind is Kind.NOTE and piece.id in out for piece in self.snapshot.evidence):
            told = (
                f"{counted(notes, 'note')} not in MEMORY.md: the agent had read a page, or quotes a tool, and no"
                " model has judged whose words these are; search has them, and 'dream.heard: ask' asks you about each"
            )
            self.snapshot = replace(self.snapshot, problems=(*self.snapshot.problems, told))
        sheet = talk.begun(self.snapshot)
        sheet.tells_days = True
        extract(sheet)
        return replace(self._fitted(sheet, EXTRACTIVE, usage or Usage()), why=problem)

    def _fitted(self, sheet: Sheet, author: str, usage: Usage) -> Ended:
        if self.snapshot.ask is not Ask.ALL:  # otherwise every eviction needs the owner's yes
            fit(sheet, self.ports.memory)
        arrange(sheet, self.ports.memory)
        seconds = (self.ports.clock() - self.snapshot.now).total_seconds()
        dream = replace(sheet.dream(author, usage, seconds), reading=reading_of(sheet))
        return Ended(dream, sheet.refusals)


def graph_of(
    dreamer: Dreamer, checkpointer: "BaseCheckpointSaver[Any] | None" = None
) -> "CompiledStateGraph[Dreaming, None, Dreaming, Dreaming]":
    """Compile the graph of one dream with a model."""
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(Dreaming)
    for name in ("gather", "synthesize", "guard", "evict", "commit"):
        graph.add_node(name, getattr(dreamer, name))
    graph.add_edge(START, "gather")
    graph.add_edge("gather", "synthesize")
    graph.add_edge("synthesize", "guard")
    graph.add_conditional_edges("guard", _after_guard, {"again": "synthesize", "done": "evict"})
    graph.add_edge("evict", "commit")
    graph.add_edge("commit", END)
    return graph.compile(checkpointer=checkpointer)


def has_news(snapshot: Snapshot) -> bool:
    """Return whether there is new input worth paying a model for; counted lines and old questions are not."""
    return any(piece.kind in NEWS and piece.id not in snapshot.unasked for piece in snapshot.evidence)


def _after_guard(state: Dreaming) -> str:
    is_asked = state["messages"][-1]["role"] == "user" and not state["failure"]
    return "again" if is_asked else "done"


def _reason(sheet: Sheet, unusable: str) -> str:
    """Return why the last answer says nothing."""
    return unusable or f"{sheet.unread[0].guard}: {sheet.unread[0].figures}"


def _asked(model: Model, messages: list[talk.Message]) -> Answer:
    return model.ask(Request(tuple((one["role"], one["content"]) for one in messages), REPLY_SCHEMA, "memory_update"))


def _paid(answer: Answer) -> dict[str, Any]:
    return {"model": answer.model, "calls": 1, "tokens": answer.tokens_in + answer.tokens_out, "usd": answer.usd}


def _answers(messages: list[talk.Message]) -> list[talk.Message]:
    return [one for one in messages if one["role"] == "assistant"]
