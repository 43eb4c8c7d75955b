"""Responses: brings what servers call a chat completion into the form that clients read.

Some servers stream although nobody asked for it, or answer with a list of parts in place of a text.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

_STREAMED = "text/event-stream"


def mend(response: "httpx.Response") -> None:
    """Have httpx's response read as a chat completion, if it is one in another form."""
    import httpx

    class Mended(httpx.SyncByteStream):
        def __init__(self, stream: httpx.SyncByteStream, *, is_streamed: bool) -> None:
            self._stream, self._is_streamed = stream, is_streamed

        def __iter__(self) -> Iterator[bytes]:
            body = b"".join(self._stream)
            yield _completion(body) if self._is_streamed else _with_texts(body)

        def close(self) -> None:
            self._stream.close()

    is_streamed = response.headers.get("content-type", "").startswith(_STREAMED)
    assert isinstance(response.stream, httpx.SyncByteStream)
    if response.is_success and "content-encoding" not in response.headers:
        response.stream = Mended(response.stream, is_streamed=is_streamed)
        if is_streamed:
            response.headers["content-type"] = "application/json"


def _completion(body: bytes) -> bytes:
    """Return the chat completion whose parts were streamed; the body itself if it is something else."""
    try:
        rows = [row.removeprefix(b"data:").strip() for row in body.splitlines() if row.startswith(b"data:")]
        chunks = [json.loads(row) for row in rows if row not in (b"", b"[DONE]")]
        whole: dict[str, Any] = {**chunks[0], "object": "chat.completion"}
        choices = [choice for chunk in chunks for choice in chunk.get("choices", ()) if not choice.get("index")]
        said = [choice.get("delta") or choice.get("message") or {} for choice in choices]
        names = ("content", "reasoning_content")
        texts = {name: "".join(_text(one.get(name) or "") for one in said) for name in names}
        ended = next((one["finish_reason"] for one in reversed(choices) if one.get("finish_reason")), "stop")
        whole["choices"] = [{"index": 0, "finish_reason": ended, "message": {"role": "assistant", **texts}}]
        whole["usage"] = next((one["usage"] for one in reversed(chunks) if one.get("usage")), None)
        return json.dumps(whole).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return body


def _with_texts(body: bytes) -> bytes:
    """Return a chat completion with each message's content as one text; the body itself if there is nothing to do."""
    try:
        whole = json.loads(body)
        messages = [choice["message"] for choice in whole["choices"]]
        if not any(isinstance(one.get("content"), list) for one in messages):
            return body
        for one in messages:
            one["content"] = _text(one.get("content"))
        return json.dumps(whole).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return body


def _text(content: Any) -> Any:  # noqa: ANN401 - JSON has no better type
    if not isinstance(content, list):
        return content
    return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in content)
