"""Answers: a dream's requests and answers as they are stored, without secrets and forgotten texts."""

import json
from collections.abc import Callable
from dataclasses import replace

from daemon.workspace.stores import Store
from graphs.ports import Answer, Request
from state.codec import decode, each_text, encode
from state.secrets.policy import Redaction
from state.stores.database.connection import transaction


def without_secrets(answer: str, redaction: Redaction) -> str:
    """Return the answer with its secrets redacted; in JSON, string by string, so that it stays valid."""
    return answer if redaction.of(answer) == answer else _each_text(answer, redaction.of)


def messages_of(request: Request) -> str:
    """Return the messages of a request as JSON. Its texts were redacted before it was made."""
    messages = [{"role": role, "content": text} for role, text in request.messages]
    # A lone surrogate must not lose an answer that was paid for.
    return json.dumps(messages, ensure_ascii=False).encode("utf-8", "replace").decode()


def settle_answers(store: Store, dream: str) -> None:
    """Erase forgotten texts from the requests, answers and steps of a dream that has ended.

    With `retention.answers_days` at 0, delete its requests and answers.
    """
    connection = store.connection
    if not store.config.retention.answers_days:
        connection.execute("UPDATE calls SET reply = '', request = '' WHERE dream = ? AND reply <> ''", (dream,))
    tombstones = store.crystals.forgotten.tombstones()
    if not tombstones:
        return
    calls = connection.execute(
        "SELECT key, reply, request FROM calls WHERE dream = ? AND reply <> ''", (dream,)
    ).fetchall()
    steps = connection.execute("SELECT place, figures FROM steps WHERE dream = ?", (dream,)).fetchall()
    with transaction(connection):
        for row in calls:
            answer = decode(Answer, row["reply"])
            text = _each_text(answer.text, tombstones.masked)
            request = _each_text(row["request"], tombstones.masked)
            if (text, request) != (answer.text, row["request"]):
                reply = encode(replace(answer, text=text))
                statement = "UPDATE calls SET reply = ?, request = ? WHERE key = ?"
                connection.execute(statement, (reply, request, row["key"]))
        for row in steps:
            figures = tombstones.masked(row["figures"])
            if figures != row["figures"]:
                statement = "UPDATE steps SET figures = ? WHERE dream = ? AND place = ?"
                connection.execute(statement, (figures, dream, row["place"]))


def _each_text(answer: str, change: Callable[[str], str]) -> str:
    """Return the answer with every string of its JSON changed, keys included; treat other text as one string."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return change(answer)
    new = each_text(value, change)
    return answer if new == value else json.dumps(new, ensure_ascii=False)
