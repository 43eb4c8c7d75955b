"""Escapes: a text with its escapes decoded in place, so that every character keeps its position.

Read are the percent signs of addresses, the entities of HTML, and tags, which part words as spaces do.
"""

import html
import re
from urllib.parse import unquote_to_bytes

# Nothing that is seen, and no end of a word: an escape is longer than what it stands for.
_NOTHING = "\u200b"
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG = re.compile(r"<[!/?A-Za-z][^<>]{0,500}>")


def unescaped(text: str) -> str:
    """Return the text with its escapes decoded, padded to its length; the text itself when nothing is escaped."""
    if "%" in text:
        text = _PERCENT.sub(_percent, text)
    if "&" in text:
        text = _ENTITY.sub(_entity, text)
    if "<" in text:
        text = _TAG.sub(lambda tag: " " * len(tag.group()), text)
    return text


def _percent(escape: re.Match[str]) -> str:
    try:
        read = unquote_to_bytes(escape.group()).decode()
    except UnicodeDecodeError:
        return escape.group()
    return "".join(char.ljust(3 * len(char.encode()), _NOTHING) for char in read)


def _entity(escape: re.Match[str]) -> str:
    read = html.unescape(escape.group())
    return read.ljust(len(escape.group()), _NOTHING)
