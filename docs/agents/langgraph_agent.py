"""A LangGraph agent with a memory: dreamd's MCP tools, called by the SDK's client in a node.

    python langgraph_agent.py WORKSPACE "What do you know about me?"

    start -> ask <-> remember
              |
              +----> end

Needs langgraph, mcp and openai. OPENAI_API_KEY, OPENAI_BASE_URL (for any compatible server) and AGENT_MODEL say which
model answers; DREAMD says where the program is, if it is not on the PATH.
"""
# ruff: noqa: T201 - an example: it prints, and reads its own environment

import asyncio
import json
import operator
import os
import sys
from typing import Annotated, Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from openai import AsyncOpenAI

MODEL = os.environ.get("AGENT_MODEL", "gpt-5-mini")


class Talk(TypedDict):
    """The conversation, as the model reads it; a node's messages are added to it."""

    messages: Annotated[list[Any], operator.add]


async def agent(memory: Client) -> CompiledStateGraph[Talk]:
    """The agent, with this memory for as long as the client is open."""
    model = AsyncOpenAI()
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
        }
        for tool in (await memory.list_tools()).tools
    ]

    async def ask(state: Talk) -> Talk:
        answer = await model.chat.completions.create(model=MODEL, messages=state["messages"], tools=tools)
        return {"messages": [answer.choices[0].message.model_dump(exclude_none=True)]}

    async def remember(state: Talk) -> Talk:
        replies = []
        for call in state["messages"][-1]["tool_calls"]:
            wanted = call["function"]
            try:
                result = await memory.call_tool(wanted["name"], json.loads(wanted["arguments"]))
                text = "\n".join(part.text for part in result.content if part.type == "text")
            except json.JSONDecodeError as error:
                text = f"the arguments are not JSON: {error}"
            replies.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        return {"messages": replies}

    def wants_memory(state: Talk) -> Literal["remember", "__end__"]:
        return "remember" if state["messages"][-1].get("tool_calls") else END

    graph = StateGraph(Talk)
    graph.add_node(ask)
    graph.add_node(remember)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", wants_memory, ["remember", END])
    graph.add_edge("remember", "ask")
    return graph.compile()


async def main(workspace: str, question: str) -> None:
    """One session: wake up, answer, and let the memory take in what was noted."""
    server = StdioServerParameters(
        command=os.environ.get("DREAMD", "dreamd"),
        args=["mcp", "-w", workspace],
        # The SDK passes on next to nothing by itself, and where the daemon's socket is depends on XDG_RUNTIME_DIR.
        env=dict(os.environ),
    )
    async with Client(stdio_client(server)) as memory:
        woken = (await memory.call_tool("memory_bootstrap", {})).content[0].text
        prompt = f"{memory.instructions}\n\n# Your memory\n\n{woken}"
        messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
        told = await (await agent(memory)).ainvoke({"messages": messages})
        print(told["messages"][-1]["content"])
        # The daemon dreams when it comes to it; without one the dream is dreamt here. With nothing new it answers so.
        await memory.call_tool("dream_now", {"reason": "session-end", "wait": False})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
