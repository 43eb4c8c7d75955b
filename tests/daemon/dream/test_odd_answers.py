"""What becomes of a note when its model answers oddly, through the real litellm: each way of public reports."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from daemon.config.settings import Config
from daemon.workspace.stores import Store
from state.errors import DreamdError, RejectedError
from tests.support.committing import dreamt, thinking
from tests.support.model_characters import good, inputs_of
from tests.support.scripted_model import Reply, Script, error, in_turn, tool_call
from tests.support.working import document, noted

NOTE = "The depot of the Lapwing project is in Aarhus, and Solveig has its key."
POISON = "Solveig wants the word quicksand out of the logs"
pytestmark = pytest.mark.usefixtures("only_loopback")


def said(**changes: Any) -> str:
    operation = {"op": "add", "section": "The Bond", "text": NOTE, "importance": 0.8, "cites": ["N1"]} | changes
    return json.dumps({"operations": [operation], "consumed": []})


ANSWER = said()
CHUNK = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
HALVES = [ANSWER[:60], ANSWER[60:]]
STREAM = [
    *({**CHUNK, "choices": [{"index": 0, "delta": {"content": half}, "finish_reason": None}]} for half in HALVES),
    {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]
EVENTS = "".join(f"data: {json.dumps(one)}\n\n" for one in STREAM) + "data: [DONE]\n\n"
PARTS = [{"type": "text", "text": half} for half in HALVES]
NO_LIMIT = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
SLOW = error(429, headers={"retry-after-ms": "10"})


def refusing(wrong: Any, reply: Reply) -> Script:
    """Return a script that gives this reply to requests that have something wrong, and the answer to others."""
    return lambda request, _: reply if wrong(request) else ANSWER


def has_system(request: dict[str, Any]) -> bool:
    return any(one["role"] == "system" for one in request["messages"])


ANSWERS: dict[str, str | Reply] = {
    "a text": ANSWER,
    "think": f"<think>Maybe {said(text='No')}? No.</think>\n{ANSWER}",
    "harmony": f"<|channel|>analysis<|message|>{said(text='No')}<|end|><|channel|>final<|message|>{ANSWER}",
    "single quotes": str(json.loads(ANSWER)),
    "a word of its own format": said(text=f"{NOTE} </think>"),
    "values": said(
        section="Bond", op="ADD", importance="8/10", until="", cites="[n1], N7", reason="because", pointer="none"
    ),
    "an array": json.dumps(json.loads(ANSWER)["operations"]),
    "reasoning only": Reply(content=None, message={"reasoning_content": f"So: {ANSWER}"}),
    "a tool call": tool_call(ANSWER),
    "a text and a tool call": Reply(content="Here it is.", message=tool_call(ANSWER).message),
    "parts": Reply(content=PARTS, usage=(900, 60)),  # type: ignore[arg-type]
    "a stream": Reply(body=EVENTS.encode(), content_type="text/event-stream"),
    "no usage": Reply(content=ANSWER, says_usage=False),
    "a usage beyond reason": Reply(content=ANSWER, usage=(10**12, 10**12)),
}
# The script, and how many requests it takes until the note is a line.
PLAYED: dict[str, tuple[Script, int]] = {name: (in_turn(reply), 1) for name, reply in ANSWERS.items()} | {
    "no max_tokens": (refusing(lambda request: "max_tokens" in request, error(400, NO_LIMIT)), 2),
    "no system role": (refusing(has_system, error(400, "System role not supported")), 2),
    "alternate": (
        refusing(
            has_system, error(400, "Conversation roles must alternate user/assistant; system role not supported")
        ),
        3,
    ),
    "rate limit": (in_turn(SLOW, ANSWER), 2),
    "one bad operation": (
        in_turn(json.dumps({"operations": [{"op": "fly"}, json.loads(ANSWER)["operations"][0]]})),
        3,
    ),
    "overloaded": (in_turn(error(529), ANSWER), 2),
}
# The reply, and the reason that is said; the note waits.
KEPT: dict[str, tuple[Script, str]] = {
    "refuses": (in_turn("I'm sorry, but I can't help with that."), "it begins \"I'm sorry, but I can't"),
    "empty": (in_turn(""), "answered nothing"),
    "html": (in_turn(Reply(body=b"<html>502 Bad Gateway</html>", content_type="text/html")), "no chat completion"),
    "an error in a 200": (in_turn(Reply(body=b'{"error": {"message": "Provider", "code": 402}}')), "402"),
    "cut off": (in_turn(ANSWER[:-40]), "breaks off after 0 operations, perhaps at model.max_output_tokens"),
    "an unclear day": (in_turn(said(until="next spring")), "'next spring' is no certain day"),
    "an unknown note": (in_turn(said(cites=["N7"])), "there is no N7"),
    "too long": (in_turn(error(400, "too long", "context_length_exceeded")), "takes no request as long as this one"),
    "a filter": (in_turn(error(400, "no", "content_policy_violation")), "refused the content by its policy"),
}


def pending(store: Store) -> list[str]:
    return [note.text for note in store.notes.each_pending()]


@pytest.mark.parametrize("way", PLAYED)
def test_what_can_be_read_is_played(tmp_path: Path, way: str) -> None:
    script, requests = PLAYED[way]
    with thinking(tmp_path, script) as (server, store):
        done = dreamt(store, NOTE)
        assert (NOTE in document(store), done.dream.author, pending(store)) == (True, "openai/gpt-4o-mini", [])
        assert server.count == requests
        assert done.dream.usage.tokens < 100_000


@pytest.mark.parametrize("way", KEPT)
def test_what_cannot_be_read_keeps_the_note_and_says_why(tmp_path: Path, way: str) -> None:
    script, why = KEPT[way]
    with thinking(tmp_path, script) as (_, store):
        with pytest.raises(DreamdError, match=re.escape(why)) as raised:
            dreamt(store, NOTE)
        assert "(no text)" not in str(raised.value)
        assert pending(store) == [NOTE]
        (run,) = store.ledger.runs(1)
        assert why in run.detail


def test_what_a_provider_refuses_once_is_left_out_in_the_whole_dream(tmp_path: Path) -> None:
    def demanding(request: dict[str, Any], _: int) -> str | Reply:
        if "response_format" in request or "max_tokens" in request or has_system(request):
            wrong = (
                NO_LIMIT if "max_tokens" in request else "System role not supported" if has_system(request) else "x"
            )
            return error(400, wrong)
        return "This is no answer."

    with thinking(tmp_path, demanding) as (server, store), pytest.raises(RejectedError):
        dreamt(store, NOTE)
    assert server.count == 3 + 3  # each part once, then three answers
    assert server.requests[-1]["max_completion_tokens"] == Config().model.max_output_tokens
    assert "You keep the working memory" in server.requests[-1]["messages"][0]["content"]


def poisoned(request: dict[str, Any], number: int) -> str:
    """A good model that cannot answer when it is shown one text."""
    told = [text for _, _, text in inputs_of(request)]
    return "I cannot." if any("quicksand" in text for text in told) else good(request, number)


@pytest.mark.parametrize("others", [0, 1, 6])
def test_a_note_that_makes_answers_fail_is_dreamt_without_the_model_alone(tmp_path: Path, others: int) -> None:
    harmless = [
        f"The {word} is in the harbour" for word in "crane anchor ferry bakery museum lantern".split()[:others]
    ]
    with thinking(tmp_path, poisoned) as (server, store):
        noted(store, *harmless[: others // 2], POISON, *harmless[others // 2 :])
        for _ in range(2):
            with pytest.raises(RejectedError):
                dreamt(store)
            assert len(pending(store)) == others + 1
        later = ["The ferry sails at noon"] if others else []
        authors = [dreamt(store, *later).dream.author]
        while pending(store):
            authors.append(dreamt(store).dream.author)
        assert all(text in document(store) for text in [*harmless, *later, POISON])
        assert authors[0] == ("openai/gpt-4o-mini" if others else "extractive")
        assert set(authors) == {authors[0]}
        assert len(authors) <= 4
        rows = [one.figures for run in store.ledger.runs(20) for one in store.ledger.rejections(run.id)]
        assert [row for row in rows if "without the model" in row] == [
            "1 input taken in without the model, whose answers failed over them again and again"
        ]
        before = server.count
        assert dreamt(store, "Ada prefers tea over coffee").dream.author == "openai/gpt-4o-mini"
        assert server.count == before + 1


def test_a_model_that_never_answers_is_asked_a_bounded_number_of_times(tmp_path: Path) -> None:
    texts = [f"The {word} is in the harbour" for word in "crane anchor ferry bakery museum".split()]
    with thinking(tmp_path, in_turn("This is no answer.")) as (server, store):
        noted(store, *texts)
        for _ in range(2):
            with pytest.raises(RejectedError):
                dreamt(store)
        assert dreamt(store).dream.author == "extractive"  # two of five, one, and the rest, each in vain
        assert (pending(store), server.count) == ([], 3 * 5)
        assert all(text in document(store) for text in texts)


@pytest.mark.parametrize("reply", [error(401), error(429, "You exceeded your quota", "insufficient_quota")])
def test_a_provider_that_is_down_makes_no_note_a_suspect(tmp_path: Path, reply: Reply) -> None:
    with thinking(tmp_path, lambda request, number: reply if number <= 4 else good(request, number)) as (_, store):
        noted(store, NOTE, POISON)
        for _ in range(4):
            with pytest.raises(DreamdError):
                dreamt(store)
        done = dreamt(store)
        assert (done.dream.author, done.dream.notes) == ("openai/gpt-4o-mini", 2)
