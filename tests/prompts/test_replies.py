"""What a model answers is read as far as it can be read, and never breaks the reader."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prompts.replies import MAX_ANSWER_CHARACTERS, MAX_OPERATIONS, REPLY_SCHEMA, Reply, read_reply
from state.codec import encode
from state.document.operations import Action, Operation
from state.document.sections import SectionName
from state.errors import ReplyError
from tests.support.documents import any_text, memories
from tests.support.long_variants import examples

BOND, CONTEXT = SectionName.BOND, SectionName.CONTEXT
SECTIONS = {"L1": BOND, "L2": CONTEXT, "L3": CONTEXT, "L4": SectionName.GAPS, "L5": SectionName.POINTERS}
ADD = {"op": "add", "section": "The Bond", "text": "Anna plays chess.", "cites": ["N1"]}
REVISE = {"op": "revise", "line": "L2", "text": "Release on Friday.", "cites": ["N2", "L2"]}
EVICT = {"op": "evict", "line": "L1", "topic": "Anna's tea", "cites": ["L1"]}
MERGE = {"op": "merge", "section": "Active Context", "lines": ["L2", "L3"], "text": "Both.", "cites": ["L2", "L3"]}
MOVE = {"op": "move", "lines": ["L3"], "section": "The Bond"}
CLOSE = {"op": "close", "lines": ["L4", "L2"], "cites": ["N5"]}
RECALL = {"op": "recall", "lines": ["L5"]}
WEIGH = {"op": "weigh", "lines": ["L3"], "importance": 0.9, "until": "2026-04-02"}
LEARN = {"op": "learn", "text": "Both moved.", "cites": ["N1", "C2"], "importance": 0.7}
WHOLE: dict[str, list[Any]] = {
    "operations": [ADD, REVISE, EVICT, MERGE, MOVE, CLOSE, RECALL, WEIGH, LEARN],
    "consumed": ["N1", "N2"],
}
READ = (
    Operation(Action.ADD, BOND, "Anna plays chess.", (), ("N1",)),
    Operation(Action.REVISE, CONTEXT, "Release on Friday.", ("L2",), ("N2", "L2")),
    Operation(Action.EVICT, BOND, "Anna's tea", ("L1",), ("L1",)),
    Operation(Action.MERGE, CONTEXT, "Both.", ("L2", "L3"), ("L2", "L3")),
    Operation(Action.MOVE, BOND, "", ("L3",)),
    Operation(Action.CLOSE, SectionName.GAPS, "", ("L4", "L2"), ("N5",)),
    Operation(Action.RECALL, SectionName.POINTERS, "", ("L5",)),
    Operation(Action.WEIGH, CONTEXT, "", ("L3",), (), 0.9, "2026-04-02"),
    Operation(Action.LEARN, CONTEXT, "Both moved.", (), ("N1", "C2"), 0.7),
)
BARE = json.dumps(WHOLE)
DRAFT = json.dumps({"operations": [], "consumed": []})


def read(answer: str) -> Reply:
    return read_reply(answer, SECTIONS)


def is_whole(reply: Reply) -> bool:
    return not any("breaks off" in one.figures for one in reply.refused)


def said(**changes: Any) -> str:
    return json.dumps({"operations": [ADD | changes]})


def test_an_insight_is_no_line_whatever_section_or_line_it_names() -> None:
    for named in ({"section": "The Niche"}, {"lines": ["L5"]}):
        (one,) = read(json.dumps({"operations": [LEARN | named]})).operations
        assert one.section is CONTEXT


@pytest.mark.parametrize(
    "answer",
    [
        BARE,
        json.dumps(WHOLE, indent=2).replace("\n", "\r\n"),
        f"```json\n{BARE}\n```",
        f"```\n{BARE}\n```\nThat is all.",
        f"Here is the update {{as you asked}}:\n\n{BARE}\n\nI hope it helps.",
        f"<think>I might answer {json.dumps({'operations': []})}, or not.</think>\n{BARE}",
        json.dumps({"name": "memory_update", "arguments": WHOLE}),
        json.dumps({"tool_calls": [{"function": {"arguments": WHOLE}}]}),
        json.dumps(WHOLE | {"reasoning": "because", "confidence": 0.9}),
        f'I answer with {{...}}; the "operations" are: {BARE}',
        json.dumps({"thought": {"plan": ["a", {"b": {}}]}} | WHOLE),
        "\ufeff" + BARE,
        BARE + BARE,
        # The last of several answers, and the one after the reasoning.
        f"{DRAFT}\nBetter:\n{BARE}",
        f"<thinking>First {DRAFT}</thinking>{BARE}",
        f"Perhaps {DRAFT}, no.</think>{BARE}",
        f"<think>Let me see. {BARE}",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{BARE}",
        f"<|channel|>analysis<|message|>Hm.<|end|><|channel|>commentary to=functions.x<|message|>{BARE}<|call|>",
        # In other JSON, or as a text in it.
        json.dumps({"response": BARE}),
        json.dumps(BARE),
        json.dumps({"choices": [{"message": {"content": f"```json\n{BARE}\n```"}}]}),
        json.dumps([WHOLE]),
        BARE.replace('"operations"', '"Operations"'),
        # Damaged.
        str(WHOLE),
        f"Here:\n```json\n{WHOLE}\n```\nLet me know, {{you}}!",
        f"{BARE[:-1]},}}",
        BARE.replace("}, {", "},, {"),
        BARE.replace("}, {", "} {"),
        BARE.replace('], "consumed"', ',], "consumed"').replace("[{", "[ // the operations\n{"),
        BARE.replace("}]", "]"),
        BARE[:-1],
        BARE.replace('"op"', "op").replace('"cites"', "cites"),
    ],
)
def test_an_answer_is_found_among_other_words(answer: str) -> None:
    reply = read(answer)
    assert reply.operations == READ
    assert reply.consumed == ("N1", "N2")
    assert reply.refused == ()


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(WHOLE["operations"]),
        "\n".join(json.dumps(one) for one in WHOLE["operations"]),
        json.dumps({"operations": json.dumps(WHOLE["operations"])}),
        json.dumps({"memory_update": WHOLE["operations"]}),
    ],
)
def test_operations_without_their_object_are_read(answer: str) -> None:
    assert read(answer) == Reply(READ)


TEXTS = {
    "the tag </think> is stripped": "the tag </think> is stripped",
    "one\nline\tand another": "one\nline\tand another",
    r"C:\depot\100\% it\'s": r"C:\depot\100\% it's",
    'she said "hi, you", and left': 'she said "hi, you", and left',
    "use {x: [1]} and \\d": "use {x: [1]} and \\d",
    r"half \ud83d an emoji": "half \ufffd an emoji",
    r"a whole \ud83d\ude00": "a whole \U0001f600",
}


@pytest.mark.parametrize("around", ["{}", "<think>{}</think>{}", "Here:\n```json\n{}\n```\nThat is all.", "{}{}"])
@pytest.mark.parametrize("text", TEXTS)
def test_what_no_json_string_may_have_in_it_is_in_the_line(text: str, around: str) -> None:
    answer = said(text="TEXT").replace("TEXT", text)
    reply = read(around.replace("{}", DRAFT, around.count("{}") - 1).replace("{}", answer))
    assert [one.text for one in reply.operations] == [TEXTS[text]]
    assert reply.refused == ()


def test_one_damaged_operation_alone_is_read_and_one_that_breaks_off_is_not() -> None:
    damaged = said(text=r"\d").replace(r"\\d", r"\d")
    alone = damaged.removeprefix('{"operations": [').removesuffix("]}")
    assert [one.text for one in read("\n".join([json.dumps(REVISE), alone])).operations] == [
        "Release on Friday.",
        r"\d",
    ]
    for end in range(damaged.index(r"\d"), len(damaged) - len("}]}")):
        reply = read(damaged[:end])
        assert (reply.operations, is_whole(reply)) == ((), False), damaged[:end]


def test_ids_may_be_said_without_their_list_and_null_is_none() -> None:
    assert read(said(cites="N1", lines=None, line=None)).operations == READ[:1]
    assert read(said(cites=None)).operations[0].cites == ()
    for cites in (
        ["N1", "N1"],
        ["[N1]"],
        "n1",
        " (N1). ".replace(".", ""),
        ["N1", "", "none"],
    ):
        assert read(said(cites=cites)).operations == READ[:1]
    for cites in ("N1, L2", ["[N1][L2]"], "n1 and L2", "N1 L2"):
        assert read(said(cites=cites)).operations[0].cites == ("N1", "L2")
    assert read(said(cites=["note 1", "N1"])).operations[0].cites == ("?", "N1")


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"section": name}
            for name in ("## The Bond", "the bond", "The Bond (Oxytocin-Weighted)", " **The Bond** ")
        ),
        *({"section": name} for name in ("Bond", "bond section", "the_bond")),
        *({"op": name} for name in ("ADD", " Add ")),
        *({"op": None, key: "add"} for key in ("operation", "Action")),
        *({"until": day} for day in ("", "none", "N/A", None)),
        *({"importance": none} for none in ("", None)),
        {"reason": "because", "confidence": 0.9, "pointer": "", "line": "null"},
    ],
)
def test_what_can_mean_only_one_thing_is_taken(changes: dict[str, Any]) -> None:
    given = {key: value for key, value in (ADD | changes).items() if key != "op" or value is not None}
    assert read(json.dumps({"operations": [given]})) == Reply(READ[:1])


@pytest.mark.parametrize(
    ("weight", "read_as"),
    [("0.8", 0.8), ("high", 0.8), ("Medium", 0.5), (8, 0.8), ("8/10", 0.8), ("8 of 10", 0.8), ("80%", 0.8), (80, 0.8),
     (1, 1.0), (-1, None), (True, None), ("perhaps", None), (1000, None), (float("nan"), None)],
)  # fmt: skip
def test_an_importance_is_read_on_the_scale_that_it_names(weight: object, read_as: float | None) -> None:
    reply = read(said(importance=weight))
    assert [one.importance for one in reply.operations] == ([] if read_as is None else [read_as])
    assert ("importance" in "".join(one.figures for one in reply.refused)) is (read_as is None)


@pytest.mark.parametrize(
    ("day", "read_as"),
    [(day, "2026-12-24") for day in ("2026-12-24", "2026-12-24T10:00:00Z", "24.12.2026", "2026/12/24", "12/24/2026",
                                     "24 December 2026", "Dec 24, 2026", "24. Dezember 2026", 20261224)]
    + [(day, "") for day in ("03/04/2026", "20261324", "2026", "December", "next spring", "31.02.2026", "1.2.26",
                              20261224.5)],
)  # fmt: skip
def test_a_last_day_is_read_in_any_form_that_names_one_day(day: object, read_as: str) -> None:
    reply = read(said(until=day))
    assert [one.until for one in reply.operations] == ([read_as] if read_as else [])
    assert all("until: " in one.figures for one in reply.refused)
    assert len(reply.refused) == (not read_as)


def test_an_eviction_takes_its_topic_or_its_text() -> None:
    for key in ("topic", "text"):
        answer = json.dumps({"operations": [{"op": "evict", "line": "L1", key: "tea", "cites": ["L1"]}]})
        assert read(answer).operations == (Operation(Action.EVICT, BOND, "tea", ("L1",), ("L1",)),)


@pytest.mark.parametrize("cut", range(len('{"operations": [') - 1, len(BARE) - 1))
def test_an_answer_that_is_cut_off_keeps_its_whole_operations_and_says_so(cut: int) -> None:
    reply = read(BARE[: cut + 1])
    assert reply.operations == READ[: len(reply.operations)]
    assert is_whole(reply) == (cut >= BARE.index('], "consumed"'))
    assert len(reply.operations) == BARE[: cut + 1].count("}")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (MOVE | {"text": "Both."}, Operation(Action.REVISE, BOND, "Both.", ("L3",))),
        (
            REVISE | {"section": "The Bond"},
            Operation(Action.REVISE, BOND, "Release on Friday.", ("L2",), ("N2", "L2")),
        ),
        (RECALL | {"section": "The Bond"}, Operation(Action.RECALL, BOND, "", ("L5",))),
        (
            {"op": "revise", "lines": ["L5"], "text": "Tea", "keywords": "tea  kind"},
            Operation(Action.REVISE, SectionName.POINTERS, "Tea", ("L5",), keywords="tea kind"),
        ),
        (WEIGH | {"until": None}, Operation(Action.WEIGH, CONTEXT, "", ("L3",), (), 0.9)),
    ],
)
def test_an_operation_is_what_its_fields_say(said: dict[str, Any], meant: Operation) -> None:
    assert read(json.dumps({"operations": [said]})) == Reply((meant,))


def test_to_close_an_input_is_to_consume_it_and_to_weigh_nothing_is_unclear() -> None:
    closed = read(
        json.dumps({"operations": [CLOSE | {"lines": ["L4", "G1"]}, CLOSE | {"lines": ["G2"]}], "consumed": ["N1"]})
    )
    assert closed == Reply((Operation(Action.CLOSE, SectionName.GAPS, "", ("L4",), ("N5",)),), ("G1", "G2", "N1"))
    (refused,) = read(json.dumps({"operations": [{"op": "weigh", "lines": ["L3"]}]})).refused
    assert refused.figures.endswith("it needs an importance or an until")


def test_one_broken_operation_in_broken_json_sinks_no_other() -> None:
    broken = '{"op": "add", "section": "The Bond", "text": "she said "hello"", "cites": ["N1"]}'
    answer = f'{{"operations": [{json.dumps(ADD)}, {broken}, {json.dumps(REVISE)}], "consumed": []}}'
    reply = read(answer)
    assert [one.text for one in reply.operations] == [READ[0].text, 'she said "hello"', READ[1].text]
    assert reply.refused == ()
    bad = json.dumps(ADD | {"op": "fly"})
    reply = read(answer.replace(broken, bad))
    assert reply.operations == READ[:2]
    assert [one.figures.startswith('{"op": "fly"') for one in reply.refused] == [True]


def test_a_comma_too_many_is_forgiven() -> None:
    reply = read(BARE.replace('"importance": 0.7}]', '"importance": 0.7},]'))
    assert reply.operations == READ
    assert is_whole(reply)


def test_only_so_many_operations_are_read() -> None:
    reply = read(json.dumps({"operations": [ADD] * (MAX_OPERATIONS + 1)}))
    assert len(reply.operations) == MAX_OPERATIONS
    assert [refusal.figures for refusal in reply.refused] == [
        "201 operations, the first 200 are read; say the others now"
    ]


def test_consumed_may_be_anything() -> None:
    assert read(json.dumps({"operations": [ADD], "consumed": "n1, N2"})).consumed == ("N1", "N2")
    assert read('{"consumed": ["N1"]}') == Reply(consumed=("N1",))
    for consumed in (None, 3, {"N1": 1}, [["N1"], None, 7]):
        assert read(json.dumps({"operations": [ADD], "consumed": consumed})).consumed == ()
    assert read(json.dumps({"operations": [], "consumed": ["N1", "\ud800", "N1"]})).consumed == ("N1", "?")


def test_what_may_be_said_of_a_line_is_read() -> None:
    (one,) = read(said(until="2026-03-19", importance=0.25, keywords="  words \n to type ")).operations
    assert (one.until, one.importance, one.keywords) == ("2026-03-19", 0.25, "words to type")
    (gone,) = read(json.dumps({"operations": [EVICT | {"pointer": False, "keywords": "x" * 500}]})).operations
    assert (gone.pointer, len(gone.keywords)) == (False, 120)


def test_what_a_refusal_quotes_is_cleaned() -> None:
    def clean(text: str) -> str:
        return text.replace("secret", "[…]")

    bad = {"op": "add", "section": "The secret", "text": "x" * 150 + "secret" * 40}
    (refusal,) = read_reply(json.dumps({"operations": [bad]}), SECTIONS, clean).refused
    assert "secret" not in refusal.figures
    with pytest.raises(ReplyError) as error:
        read_reply("A secret.", SECTIONS, clean)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n",
        "no",
        "I cannot help with that.",
        "{}",
        "[]",
        "null",
        '{"operations": "none"}',
        '{"operations"',
        '{"operations": ',
        "operations",
        '{"insights": []}',
        "# A title\n\nSome prose.",
        "```python\nprint()\n```",
        "[" * 100_000,
        "{" * 100_000,
        '{"operations": ' * 5_000,
        '{"a": ' * 20_000 + '"operations"',
        "NaN",
        "-" * 150_000 + "x",
        "# a" + " " * 150_000 + "b",
        "x" * (MAX_ANSWER_CHARACTERS + 1),
        "x" * 1_048_576,
        "\0" * 1000,
    ],
)
def test_an_answer_that_says_nothing_is_a_reply_error(answer: str) -> None:
    with pytest.raises(ReplyError) as error:
        read(answer)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("depth", [10, 300, 900, 930, 950, 960, 970, 980, 990, 1000, 5_000, 40_000])
def test_deep_nesting_is_refused_or_read_and_breaks_nothing(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    answer = (
        f'{{"operations": [{json.dumps(ADD)}, {{"op": "add", "text": {deep}}}, {json.dumps(REVISE)}], "x": {deep}}}'
    )
    reply = read(answer)
    assert reply.operations == READ[:2]
    assert [refusal.guard for refusal in reply.refused] == ["shape"]
    assert encode(reply.refused[0])


def test_numbers_that_are_none_and_doubled_keys_are_read() -> None:
    answer = (
        f'{{"operations": [{{"op": "add", "op": "add", "section": "The Bond", "text": NaN}}, {json.dumps(ADD)}]}}'
    )
    assert read(answer).operations == READ[:1]
    assert read('{"operations": [Infinity, ' + json.dumps(ADD) + "]}").operations == READ[:1]
    assert read('{"operations": [' + "9" * 10_000 + ", " + json.dumps(ADD) + "]}").operations == READ[:1]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["N1", "L1", "add"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*ADD, "lines", "line"]), inner),
    max_leaves=12,
)
replies = st.one_of(
    st.builds(lambda values: json.dumps({"operations": values}), st.lists(json_values, max_size=5)),
    st.builds(lambda value: json.dumps({"operations": value, "consumed": value}), json_values),
    st.just(BARE),
    any_text,
    memories(),
    st.text(max_size=80),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A reply that is cut, doubled, spoilt or wrapped somewhere."""
    answer = draw(replies)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(answer)))
        end = draw(st.integers(at, min(len(answer), at + 6)))
        answer = (
            answer[:at]
            + draw(st.sampled_from(["", "{", '"', "}", "]", "\\", "```", "\n", "\ud800", "💥"]))
            + answer[end:]
        )
    return draw(st.sampled_from(["{}", "```json\n{}\n```", "Well: {}", "{}, that is it"])).replace("{}", answer)


@examples(600)
@given(damaged())
@example('{"operations": [{"op": "add", "section": "\\ud800", "text": "\\udfff", "cites": ["\\ud83d"]}]}')
@example('{"operations": [], "consumed": ["\\ud800"]}')
def test_whatever_is_answered_is_read_or_is_a_reply_error(answer: str) -> None:
    try:
        result = read(answer)
    except ReplyError:
        return
    for operation in result.operations:
        assert encode(operation)
        assert operation.text or operation.action not in (Action.ADD, Action.REVISE, Action.MERGE, Action.LEARN)
    for refusal in result.refused:
        assert encode(refusal)
        assert len(refusal.figures) < 400


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object of a schema."""
    if isinstance(schema, list):
        return [found for one in schema for found in objects(one)]
    if not isinstance(schema, dict):
        return []
    inside = [found for one in schema.values() for found in objects(one)]
    return [schema, *inside] if schema.get("type") == "object" else inside


def test_the_schema_is_what_strict_structured_output_takes() -> None:
    for one in objects(REPLY_SCHEMA):
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])
    assert "default" not in json.dumps(REPLY_SCHEMA)
    assert set(REPLY_SCHEMA["properties"]) == {"operations", "consumed"}
