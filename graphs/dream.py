"""The dream graph: its six nodes and their edges, compiled for LangGraph, or walked without it.

gather -> reflect -> synthesize -> guard -> evict -> commit
                         ^           |        |
                         +-- again --+        |
                                     +--------+-> refused

Each arrow is a checkpoint: a killed dream goes on at the node that was running, and does not pay its model twice.
LangGraph runs a dream that has a model to wait for. It takes a second to import, which is longer than all else in a
dream without one: that is walked along the same edges.
"""

from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from graphs import nodes
from graphs.graph_state import Dreaming, Step
from graphs.ports import Ports
from state.errors import StorageError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

FIRST, END = "gather", "__end__"
_EDGES: Mapping[str, str] = {"gather": "reflect", "reflect": "synthesize", "synthesize": "guard", "commit": END}
_AFTER_GUARD: dict[Hashable, str] = {"synthesize": "synthesize", "evict": "evict", "refused": END}
_AFTER_EVICT: dict[Hashable, str] = {"commit": "commit", "refused": END}


def build(
    ports: Ports, checkpointer: "BaseCheckpointSaver[Any] | None" = None
) -> "CompiledStateGraph[Dreaming, None, Dreaming, Dreaming]":
    """Compile the graph of one dream over this world."""
    from langgraph.graph import START, StateGraph

    graph = StateGraph(Dreaming)
    for name, node in _nodes(ports).items():
        graph.add_node(name, node)
    graph.add_edge(START, FIRST)
    for one, following in _EDGES.items():
        graph.add_edge(one, following)
    graph.add_conditional_edges("guard", nodes.after_guard, _AFTER_GUARD)
    graph.add_conditional_edges("evict", nodes.after_evict, _AFTER_EVICT)
    return graph.compile(checkpointer=checkpointer)


def walk(ports: Ports, state: Dreaming, node: str = FIRST) -> Iterator[tuple[str, Step, str]]:
    """Run one node after the other, from this one to the end: each with its step, and the node that is next.

    Raises StorageError for a node that there is not.
    """
    every = _nodes(ports)
    while node != END:
        if node not in every:
            raise StorageError(f"a dream has no node {node!r:.40}")
        step = every[node](state)
        state = {**state, **step}
        following = _next(node, state)
        yield node, step, following
        node = following


def _nodes(ports: Ports) -> dict[str, "partial[Step]"]:
    return {
        "gather": partial(nodes.gather, ports=ports),
        "reflect": partial(nodes.reflect, ports=ports),
        "synthesize": partial(nodes.synthesize, ports=ports),
        "guard": partial(nodes.guard, ports=ports),
        "evict": partial(nodes.evict, ports=ports),
        "commit": partial(nodes.commit, ports=ports),
    }


def _next(node: str, state: Dreaming) -> str:
    if node == "guard":
        return _AFTER_GUARD[nodes.after_guard(state)]
    if node == "evict":
        return _AFTER_EVICT[nodes.after_evict(state)]
    return _EDGES[node]
