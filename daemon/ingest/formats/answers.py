"""Answers: what a person said to an agent's questions, and when refusing one of its calls."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from daemon.ingest.formats.own_words import Places

Questions = Sequence[tuple[str, str]]
"""Each question of a call: its id, or "", and its text."""

_NO_ANSWERS = ("", "(no option selected)", "Unanswered")
_NOTE = "user_note:"  # Codex writes it before what was typed beside an option
_CLARIFYING = "The user wants to clarify these questions."
_CLARIFIED = re.compile(
    r"^- \"([^\n]*)\"\n  Answer: (.*?)(?:\n  User notes: (.*?))?(?=\n- \"|\Z)", re.MULTILINE | re.DOTALL
)
_RESPONDED = re.compile(r"The user responded: (.*)\Z", re.DOTALL)
_CLOSING = re.compile(r"\.(?: (?:You can now continue|Read the answers carefully)[^\"]*)?\Z")
_MOST_QUESTIONS = 16


def questions_of(places: Places, tool: str, arguments: object) -> Questions:
    """Return the questions of a call; empty if the tool does not ask a person."""
    asked = arguments.get("questions") if tool in places.asking and isinstance(arguments, Mapping) else None
    found = [one for one in asked if isinstance(one, Mapping)] if isinstance(asked, list) else []
    return [(str(one.get("id") or ""), str(one.get("question") or "")) for one in found[:_MOST_QUESTIONS]]


def answers(questions: Questions, answer: object) -> list[str]:
    """Return what a person answered, each answer after its question, so that it makes sense alone."""
    if isinstance(answer, str):
        parsed: object = None
        with suppress(ValueError, RecursionError):
            parsed = json.loads(answer)
        answer = parsed if isinstance(parsed, dict) else {"answers": dict(_written(questions, answer))}
    if isinstance(answer, list):
        answer = {"answers": answer}
    # A question that nobody answered in time was not answered.
    if not isinstance(answer, Mapping) or answer.get("afkTimeoutMs"):
        return []
    given, notes = answer.get("answers"), answer.get("annotations")
    found = []
    for number, (key, question) in enumerate(questions):
        told = _words(_of(given, number, key, question))
        beside = _of(notes, number, key, question)
        note = _words(beside.get("notes")) if isinstance(beside, Mapping) else ""
        if words := "; ".join(filter(None, (told, note))):
            found.append(beside_question(question, words))
    if response := _words(answer.get("response")):
        found.append(beside_question(" ".join(question for _, question in questions), response))
    return found


def reasons(places: Places, result: str) -> list[str]:
    """Return what a person said when refusing a call; empty if the result is no refusal, or has no reason."""
    refused = places.refusal.match(result) if places.refusal else None
    return said_in(refused[1]) if refused else []


def said_in(reason: str) -> list[str]:
    """Return the person's words in the reason of a refusal; a refused question has them beside the questions."""
    reason = reason.strip()
    if not reason.startswith(_CLARIFYING):
        return [reason] if reason else []
    told = (
        (one[1], "; ".join(filter(None, (one[2].strip(), (one[3] or "").strip()))))
        for one in _CLARIFIED.finditer(reason)
    )
    return [beside_question(question, words) for question, words in told if words]


def beside_question(question: str, words: str) -> str:
    """Return an answer after its question."""
    question = " ".join(question.split())
    if question and question[-1] not in "?？:.!…":
        question += ":"
    return f"{question} {words}".strip()


def _of(values: object, number: int, key: str, question: str) -> object:
    """Return the value for a question, by its id, its text or its number."""
    if isinstance(values, list):
        return values[number] if number < len(values) else None
    if not isinstance(values, Mapping):
        return None
    return next((values[one] for one in (key, question, str(number)) if one and one in values), None)


def _words(value: object) -> str:
    """Return an answer as text: a text, several, or {"answers": …}."""
    if isinstance(value, Mapping):
        value = value.get("answers", value.get("answer"))
    if isinstance(value, list):
        return ", ".join(filter(None, map(_words, value)))
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    return "" if text in _NO_ANSWERS else text.removeprefix(_NOTE).strip()


def _written(questions: Questions, text: str) -> Iterator[tuple[str, str]]:
    """Yield the answers in a sentence of the form `… "question"="answer" notes: note, "question"="answer". …`."""
    if responded := _RESPONDED.match(text):
        yield questions[0][1] if questions else "", responded[1]
    closing = list(_CLOSING.finditer(text))
    text = text[: closing[-1].start()] if closing else text
    marks = [(text.find(f'"{question}"="'), question) for _, question in questions]
    marks = sorted((at, question) for at, question in marks if at >= 0)
    for (at, question), after in zip(marks, [*(at for at, _ in marks[1:]), len(text)], strict=False):
        told = text[at + len(question) + 4 : after].removesuffix(", ")
        told, _, note = told.partition('" notes: ')
        told, _, preview = told.partition('" selected preview:\n')  # the agent's words
        note = note or preview.partition(" notes: ")[2]
        yield question, "; ".join(filter(None, (told.strip().removesuffix('"'), note.strip())))
