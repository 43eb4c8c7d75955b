"""Values as JSON and back: nothing is half read."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes.change import Change, CurrentLine
from state.codec import decode, encode, plain
from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin, Source
from state.document.document import SectionName
from state.document.operations import Action, Operation, Refusal, Why
from state.dream import Dream, Evidence, Remark, StagedChange, Usage
from state.dream import Kind as EvidenceKind
from state.errors import StorageError
from state.trust import Trust
from tests.support.long_variants import examples

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text("LNC0123456789", max_size=4)
levels = st.floats(0, 1)
counts = st.integers(0, 10**9)
moments = st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))
sections = st.sampled_from(SectionName)
trusts = st.sampled_from(Trust)


def tuples(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=2).map(tuple)


sources = st.builds(Source, texts, counts, counts, texts)
crystals = st.builds(
    Crystal,
    text=texts,
    origin=st.sampled_from(Origin),
    created_at=moments,
    kind=st.sampled_from(Kind),
    importance=levels,
    trust=trusts,
    source=st.none() | sources,
    parents=tuples(names),
    lifecycle=st.sampled_from(Lifecycle),
    accesses=counts,
    last_accessed_at=st.none() | moments,
    valence=st.floats(-0.5, 1),
)
operations = st.builds(Operation, st.sampled_from(Action), sections, texts, tuples(names), tuples(names))
refusals = st.builds(Refusal, texts, texts, texts, st.none() | operations)
standing = st.builds(CurrentLine, names, sections, texts, levels, trusts, moments, st.booleans())
evidence = st.builds(
    Evidence, names, st.sampled_from(EvidenceKind), texts, levels, trusts, moments, names, texts, tuples(names), texts
)
marks = st.builds(Remark, counts, st.none() | counts, st.none() | counts)
changes = st.builds(Change, st.sampled_from(Why), tuples(standing), tuples(standing), tuples(names))
staged = st.builds(
    StagedChange, operations, tuples(standing), tuples(evidence), tuples(standing), texts, st.booleans()
)
dreams = st.builds(
    Dream,
    number=counts,
    id=names,
    at=moments,
    cause=texts,
    reason=texts,
    before=texts,
    after=texts,
    mood=texts,
    changes=tuples(changes),
    operations=tuples(operations),
    refused=tuples(refusals),
    crystals=tuples(crystals),
    taken=tuples(counts),
    remarks=tuples(marks),
    usage=st.builds(Usage, texts, counts, counts, levels, tuples(texts)),
    joined=st.booleans(),
    staged=tuples(staged),
)


@examples(60)
@given(st.one_of(dreams, staged, crystals))
def test_decode_undoes_encode(value: object) -> None:
    assert decode(type(value), encode(value)) == value
    assert decode(type(value), encode(value).encode()) == value


@given(st.one_of(crystals, refusals))
def test_a_value_is_one_row_of_json_and_plain_is_the_same(value: object) -> None:
    assert "\n" not in encode(value)
    assert json.loads(encode(value)) == plain(value)


REFUSAL = {"guard": "citation", "scope": "operation", "figures": "it cites nothing"}


@pytest.mark.parametrize(
    "broken",
    [
        REFUSAL | {"spare": 1},
        {"guard": "citation", "scope": "operation"},
        REFUSAL | {"figures": 3},
        REFUSAL | {"operation": {"action": "add", "section": "The Bond", "text": "a", "spare": 1}},
        REFUSAL | {"operation": {"action": "burn", "section": "The Bond", "text": "a"}},
        [],
        None,
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_record(broken: object) -> None:
    with pytest.raises(StorageError, match=r"^record 7: .*dreamd doctor"):
        decode(Refusal, json.dumps(broken), "record 7")


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"guard": "a"', b"\xff\xfe", "[" * 5000])
def test_what_is_no_json_is_an_error(text: str | bytes) -> None:
    with pytest.raises(StorageError):
        decode(Refusal, text)
