"""The dream graph: compiles the six nodes and their edges for LangGraph.

gather -> reflect -> synthesize -> guard -> evict -> commit
                         ^           |        |
                         +-- again --+        |
                                     +--------+-> refused

Each arrow is a checkpoint: a killed dream goes on at the node that was running, and does not pay its model twice.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from graphs import nodes
from graphs.graph_state import Dreaming
from graphs.ports import Ports

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph


def build(
    ports: Ports, checkpointer: "BaseCheckpointSaver[Any] | None" = None
) -> "CompiledStateGraph[Dreaming, None, Dreaming, Dreaming]":
    """The graph of one dream over this world."""
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(Dreaming)
    graph.add_node("gather", partial(nodes.gather, ports=ports))
    graph.add_node("reflect", partial(nodes.reflect, ports=ports))
    graph.add_node("synthesize", partial(nodes.synthesize, ports=ports))
    graph.add_node("guard", partial(nodes.guard, ports=ports))
    graph.add_node("evict", partial(nodes.evict, ports=ports))
    graph.add_node("commit", partial(nodes.commit, ports=ports))
    graph.add_edge(START, "gather")
    graph.add_edge("gather", "reflect")
    graph.add_edge("reflect", "synthesize")
    graph.add_edge("synthesize", "guard")
    graph.add_conditional_edges(
        "guard", nodes.after_guard, {"synthesize": "synthesize", "evict": "evict", "refused": END}
    )
    graph.add_conditional_edges("evict", nodes.after_evict, {"commit": "commit", "refused": END})
    graph.add_edge("commit", END)
    return graph.compile(checkpointer=checkpointer)
