"""Models of agents, scripted: Anthropic's Messages, OpenAI's Responses and Chat, Google's Gemini, all streaming.

    with MessagesApi(plan) as api:           # ANTHROPIC_BASE_URL=api.url
    with ResponsesApi(plan) as api:          # base_url of a model_provider: f"{api.url}/v1"
    with ChatApi(plan) as api:               # baseURL of a provider: f"{api.url}/v1"
    with GenerateApi(plan) as api:             # GOOGLE_GEMINI_BASE_URL=api.url

A plan says what the model does about a prompt: its steps one after the other, a call of a tool or a text. Which is
due is read from the request alone, by the results that stand after the last prompt: a request that is sent twice is
answered twice with the same. Every request is recorded as it came.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted_model import LocalHandler, LocalServer


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, by the name that it has at its MCP server."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    server: str = "dreamd"  # "": a tool of the agent's own


Step = Call | str
Plan = Callable[[str], Sequence[Step]]
Event = dict[str, Any]


NOT_THERE = "unsupported call: "
PATIENCE = 10  # calls of a missing tool, after which its error is taken for its result


class ScriptedApi(LocalServer, ABC):
    """The server; `requests` are the bodies of what asked the model."""

    path: str

    def __init__(self, plan: Plan) -> None:
        super().__init__(_Handler)
        self.plan = plan
        self.refusal: tuple[int, str] | None = None  # status and message instead of an answer
        self.others: list[str] = []  # methods and paths of whatever else was asked

    def step(self, request: dict[str, Any]) -> Step:
        prompt, results = self.conversation(request)
        steps = self.plan(prompt)
        return steps[min(len(results), len(steps) - 1)]

    @abstractmethod
    def conversation(self, request: dict[str, Any]) -> tuple[str, list[str]]:
        """The last prompt, and the results of tools after it."""

    @abstractmethod
    def events(self, request: dict[str, Any], step: Step) -> Iterator[Event]:
        """The answer as it is streamed."""


class MessagesApi(ScriptedApi):
    path = "/v1/messages"

    def conversation(self, request: dict[str, Any]) -> tuple[str, list[str]]:
        prompt, results = "", list[str]()
        for message in request["messages"]:
            if message["role"] != "user":
                continue
            blocks = _blocks(message["content"])
            answers = [_text(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]
            if answers:
                results += answers
            else:
                prompt, results = _text(blocks), []
        return prompt, results

    def events(self, request: dict[str, Any], step: Step) -> Iterator[Event]:
        number = len(self.requests)
        head = {"id": f"msg_{number:024}", "type": "message", "role": "assistant", "model": request["model"]}
        used = {"input_tokens": 1_000, "output_tokens": 10}
        yield {
            "type": "message_start",
            "message": {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": used},
        }
        if isinstance(step, Call):
            name = f"mcp__plugin_{step.server}_{step.server}__{step.tool}" if step.server else step.tool
            block: Event = {"type": "tool_use", "id": f"toolu_{number:024}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": step}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        reason = "tool_use" if isinstance(step, Call) else "end_turn"
        yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": used}
        yield {"type": "message_stop"}


class ResponsesApi(ScriptedApi):
    path = "/v1/responses"

    def conversation(self, request: dict[str, Any]) -> tuple[str, list[str]]:
        prompt, results, missing = "", list[str](), 0
        for item in request["input"]:
            if item["type"] == "function_call_output":
                # A server that is not required may start after the first request: its tool is called again.
                output = _text(item["output"])
                missing = missing + 1 if output.startswith(NOT_THERE) else 0
                if missing in (0, PATIENCE):
                    results.append(output)
                    missing = 0
            elif item["type"] == "message" and item["role"] == "user":
                prompt, results, missing = _text(item["content"]), [], 0
        return prompt, results

    def events(self, request: dict[str, Any], step: Step) -> Iterator[Event]:
        number = len(self.requests)
        if str(request["input"][-1].get("output", "")).startswith(NOT_THERE):
            time.sleep(0.5)
        response = {"id": f"resp_{number}", "object": "response", "model": request["model"]}
        if isinstance(step, Call):
            item: Event = {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "name": step.tool,
                "arguments": json.dumps(step.arguments),
                "status": "completed",
            }
            if step.server:
                item["namespace"] = f"mcp__{step.server}"
        else:
            said = {"type": "output_text", "text": step, "annotations": []}
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [said]}
        used = {
            "input_tokens": 1_000,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 1_010,
        }
        yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        if not isinstance(step, Call):
            where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            yield {"type": "response.output_text.delta", **where, "delta": step}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        done = {**response, "status": "completed", "output": [item], "usage": used}
        yield {"type": "response.completed", "response": done}


class ChatApi(ScriptedApi):
    """OpenAI's Chat Completions. A request without tools, such as for a title, is answered by a text."""

    path = "/v1/chat/completions"

    def conversation(self, request: dict[str, Any]) -> tuple[str, list[str]]:
        prompt, results = "", list[str]()
        for one in request["messages"]:
            if one["role"] == "user":
                prompt, results = _text(one["content"]), []
            elif one["role"] == "tool":
                results.append(_text(one["content"]))
        return prompt, results

    def events(self, request: dict[str, Any], step: Step) -> Iterator[Event]:
        head = {"id": "chat", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
        used = {"prompt_tokens": 1_000, "completion_tokens": 10, "total_tokens": 1_010}
        said: Event = {"role": "assistant", "content": step if isinstance(step, str) else "A title"}
        reason = "stop"
        if isinstance(step, Call) and request.get("tools"):
            function = {"name": f"{step.server}_{step.tool}", "arguments": json.dumps(step.arguments)}
            call = {"index": 0, "id": f"call_{len(self.requests)}", "type": "function", "function": function}
            said, reason = {"role": "assistant", "tool_calls": [call]}, "tool_calls"
        yield {**head, "choices": [{"index": 0, "delta": said, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": used}


class GenerateApi(ScriptedApi):
    path = ":streamGenerateContent"

    def conversation(self, request: dict[str, Any]) -> tuple[str, list[str]]:
        prompt, results = "", list[str]()
        for one in request["contents"]:
            answers = [part["functionResponse"]["response"] for part in one["parts"] if "functionResponse" in part]
            if answers:
                results += [str(one.get("output", one)) for one in answers]
            elif one["role"] == "user":
                prompt, results = _text(one["parts"]), []
        return prompt, results

    def events(self, request: dict[str, Any], step: Step) -> Iterator[Event]:  # noqa: ARG002 - nothing of it is said
        part: Event = {"text": step}
        if isinstance(step, Call):
            name = f"mcp_{step.server}_{step.tool}" if step.server else step.tool
            part = {"functionCall": {"name": name, "args": step.arguments}}
        used = {"promptTokenCount": 1_000, "candidatesTokenCount": 10, "totalTokenCount": 1_010}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        yield {"candidates": [candidate], "usageMetadata": used, "modelVersion": "scripted"}


class _Handler(LocalHandler):
    server: ScriptedApi

    def do_POST(self) -> None:  # noqa: N802
        api = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.partition("?")[0].endswith(api.path):
            self._refuse()
            return
        request = json.loads(body)
        api.requests.append(request)
        if api.refusal is not None:
            status, message = api.refusal
            kind = "usage_limit_reached" if status == 429 else "invalid_request_error"
            said: dict[str, object] = {"type": kind, "message": message, "plan_type": "plus"}  # what Codex reads
            said |= {"code": status} if isinstance(api, GenerateApi) else {}
            self._send(status, "application/json", json.dumps({"type": "error", "error": said}).encode())
            return
        streamed = b"".join(
            (f"event: {event['type']}\n" if "type" in event else "").encode()
            + f"data: {json.dumps(event)}\n\n".encode()
            for event in api.events(request, api.step(request))
        )
        self._send(200, "text/event-stream", streamed)

    def _refuse(self) -> None:
        self.server.others.append(f"{self.command} {self.path}")
        self._send(404, "application/json", b'{"error": {"type": "not_found_error", "message": "not scripted"}}')

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.begin(status, {"Content-Type": kind}, body)
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_CONNECT = _refuse  # noqa: N815


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _text(content: Any) -> str:
    """The words of a content, however it is written."""
    return content if isinstance(content, str) else "\n".join(str(block.get("text", "")) for block in content)
