"""Message: what an agent sends, made readable for the SDK, which answers other JSON without the id of the request.

It needs nothing but the standard library, because the pump reads messages, too.
"""

import json
import re
from typing import Any

from state.codec import each_text, whole

# What may need mending: half of a surrogate pair, as from an emoji that was cut, and arguments written as a text.
_SUSPECT = re.compile(rb'\\u[dD][89a-fA-F]|"arguments"\s*:\s*"')


def mended(body: bytes) -> bytes:
    """Return a message with U+FFFD for what is no character, and its arguments as an object; others unchanged."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = body.decode(errors="replace")
    else:
        if not _SUSPECT.search(body):
            return body
    try:
        value = each_text(json.loads(text), whole)
        params = value.get("params") if isinstance(value, dict) else None
        if isinstance(params, dict) and isinstance(params.get("arguments"), str):
            params["arguments"] = _object(params["arguments"])
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return body


def _object(text: str) -> Any:  # noqa: ANN401 - JSON has no better type
    """Return the object that a text writes; the text if it writes none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return each_text(value, whole) if isinstance(value, dict) else text
