"""Prompts: loads and renders the messages to the model.

A prompt is a file `prompts/NAME.md`: a `version:` line, a line `---`, and a Jinja template of the system message and,
after a line `--- user ---`, of the user message. A missing variable raises, and so does an unused one. Memory text
enters prompts only as JSON strings on one line each, so it cannot end its own quotation.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_SEPARATOR = "--- user ---\n"
# Invisible characters: controls, line and paragraph separators, directional and zero-width marks (except joiners,
# which belong to spelling), lone surrogates, fillers, variation selectors, and tags, which can spell hidden text.
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# What could be taken for the end of the memory, for who speaks, or for a sign of the model's own.
_TAG = re.compile(
    r"<(?=[/|!?]|\W*(?:memory|system|user|assistant|human|developer|instruct|tool|im_|\|))", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt file."""

    name: str
    version: int
    system: str
    user: str
    digest: str

    @property
    def label(self) -> str:
        """Return its name in the ledger: name, version and digest."""
        return f"{self.name}@{self.version}:{self.digest[:12]}"


@cache
def load(name: str) -> Prompt:
    """Load the prompt of this name. Raise ValueError if its file has no `version:` line or no user part."""
    head, rule, body = (_FOLDER / f"{name}.md").read_text(encoding="utf-8").partition("---\n")
    key, _, version = head.strip().partition(":")
    system, separator, user = body.partition(_SEPARATOR)
    if key != "version" or not rule or not separator:
        raise ValueError(f"prompts/{name}.md: needs 'version: n', '---', the system part, '{_SEPARATOR.strip()}'")
    return Prompt(name, int(version), system, user, hashlib.sha256(body.encode()).hexdigest())


def render(prompt: Prompt, variables: dict[str, object]) -> tuple[str, str]:
    """Return the system and the user message.

    Raise jinja2.UndefinedError for a missing variable and ValueError for one that the template does not use.
    """
    from jinja2 import Environment, StrictUndefined, meta

    # Autoescape is for HTML. These are plain texts, which memory enters only as JSON strings.
    environment = Environment(  # noqa: S701
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["quoted"] = quoted
    used: set[str] = set()
    messages = []
    for source in (prompt.system, prompt.user):
        used |= meta.find_undeclared_variables(environment.parse(source))
        messages.append(environment.from_string(source).render(variables).strip() + "\n")
    if spare := sorted(set(variables) - used):
        raise ValueError(f"prompts/{prompt.name}.md does not use {', '.join(spare)}")
    return messages[0], messages[1]


def quoted(text: object) -> str:
    """Quote a text, or any JSON value, on one line.

    A `<` that could begin the tag of a memory or of a speaker is escaped, so that the text can forge none, and so are
    line breaks and invisible characters. Any other `<` is one.
    """
    shown = _TAG.sub("\\\\u003c", json.dumps(text, ensure_ascii=False))
    return _UNSEEN.sub(lambda match: json.dumps(match.group())[1:-1], shown)
