"""Message: what an agent sends, made readable for the SDK, which answers other JSON without the id of the request.

It needs nothing but the standard library, because the pump reads messages, too.
"""

import json
from typing import Any

from state.codec import each_text, whole


def read(body: bytes) -> Any:  # noqa: ANN401 - JSON has no better type
    """Return a message with U+FFFD for what is no character, and its arguments as an object; None for no JSON.

    An emoji may be cut in half, and the arguments be written as a text.
    """
    try:
        value = each_text(json.loads(body.decode(errors="replace")), whole)
    except (ValueError, RecursionError):
        return None
    arguments = at(value, "params", "arguments")
    if isinstance(arguments, str) and isinstance(written := read(arguments.encode()), dict):
        value["params"]["arguments"] = written
    return value


def at(value: Any, *keys: str) -> Any:  # noqa: ANN401
    """Return what is at these keys of a message, which may be of any form; None if nothing is."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
