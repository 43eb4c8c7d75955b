"""Answers: what a model answered in a dream, as it is kept: without secrets and without what is forgotten."""

import json
from collections.abc import Callable
from dataclasses import replace

from daemon.workspace.stores import Store
from graphs.ports import Answer
from state.codec import decode, encode
from state.secrets.policy import Redaction
from state.stores.database.connection import transaction


def without_secrets(answer: str, redaction: Redaction) -> str:
    """The answer without its secrets; of JSON each text by itself, so that it stays JSON."""
    return answer if redaction.of(answer) == answer else _each_text(answer, redaction.of)


def forget_answers(store: Store, dream: str) -> None:
    """Take what is forgotten out of the answers kept of this dream, which is over."""
    tombstones = store.crystals.forgotten.tombstones()
    if not tombstones:
        return
    connection = store.crystals.connection
    rows = connection.execute("SELECT key, reply FROM calls WHERE dream = ?", (dream,)).fetchall()
    with transaction(connection):
        for row in rows:
            answer = decode(Answer, row["reply"])
            text = _each_text(answer.text, tombstones.masked)
            if text != answer.text:
                kept = encode(replace(answer, text=text))
                connection.execute("UPDATE calls SET reply = ? WHERE key = ?", (kept, row["key"]))


def _each_text(answer: str, change: Callable[[str], str]) -> str:
    """The answer with each text of its JSON, names too, changed; what is no JSON is one text."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return change(answer)

    def changed(value: object) -> object:
        if isinstance(value, dict):
            return {change(name): changed(one) for name, one in value.items()}
        if isinstance(value, list):
            return [changed(one) for one in value]
        return change(value) if isinstance(value, str) else value

    new = changed(value)
    return answer if new == value else json.dumps(new, ensure_ascii=False)
