"""Arguments as models send them: what can be meant in one way only is read so, everything else is left to be refused.

Models write numbers and lists as text, null for what they leave out, and dates without a time. A flag is not guessed:
it may confirm that something is destroyed.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,2})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME_WITHOUT_ZONE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?")


def meant(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments in the types of this schema, without those that are null and may be left out.

    A text that is empty means none where no text can be meant. A date is its beginning, a time without a zone UTC.
    """
    fields, required = schema.get("properties", {}), schema.get("required", ())
    read = {name: _meant(value, fields.get(name, {})) for name, value in arguments.items()}
    return {
        name: value
        for name, value in read.items()
        if name not in fields or name in required or not _is_none(value, fields[name])
    }


def _is_none(value: Any, schema: Mapping[str, Any]) -> bool:  # noqa: ANN401 - JSON has no better type
    means_text = "string" in _types(schema) and "enum" not in schema and "format" not in schema
    return value is None or (value == "" and not means_text)


def _types(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("type", [])
    return given if isinstance(given, list) else [given]


def _meant(value: Any, schema: Mapping[str, Any]) -> Any:  # noqa: ANN401
    types = _types(schema)
    if isinstance(value, str):
        value = _text_meant(value, schema) if "string" in types else _value_meant(value.strip(), value, types)
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        return int(value)
    if isinstance(value, list):
        return [_meant(one, schema.get("items", {})) for one in value]
    return meant(value, schema) if isinstance(value, dict) else value


def _text_meant(text: str, schema: Mapping[str, Any]) -> str:
    """Return a text where one is wanted: a time, one of some words, or anything."""
    word = text.strip()
    if schema.get("format") == "date-time":
        if _DATE.fullmatch(word):
            return f"{word}T00:00:00Z"
        return f"{word}Z" if _TIME_WITHOUT_ZONE.fullmatch(word) else text
    return word.lower() if word.lower() in schema.get("enum", ()) else text


def _value_meant(word: str, text: str, types: list[str]) -> Any:  # noqa: ANN401
    """Return what a text means where no text is wanted; the text itself when it is unclear."""
    if "integer" in types and _INTEGER.fullmatch(word):
        return int(word)
    if ("number" in types or "integer" in types) and _NUMBER.fullmatch(word):
        return float(word)
    if ("array" in types and word.startswith("[")) or ("object" in types and word.startswith("{")):
        with suppress(ValueError, RecursionError):
            return json.loads(word)
    return text
