"""Each poisoned text alone, in each section, from each source, verbatim and reworded: what may then stand."""

import pytest

from graphs.extractive import extract
from graphs.guards import apply, judge
from graphs.synthesis import request
from state.document.document import SectionName, parse, render
from state.document.operations import Action, Operation
from state.dream import Draft, Evidence, Kind, Snapshot
from state.injection.defang import is_quoted, reads_as_instruction
from state.trust import Trust
from tests.graphs.world import NOW, memory, snapshot
from tests.support.long_variants import spread, variants
from tests.support.poison import HONEST, POISONED, Honest, Poisoned
from tests.support.poison.checking import ends_quotation, escapes

TEXT = memory(bond=["Anna prefers short answers."], context=["The release is planned for Friday."])
OLD = {block.key for _, block in parse(TEXT).lines()}
FREE = tuple(name for name in SectionName if name not in {SectionName.POINTERS, SectionName.SKILLS})


def read(texts: tuple[str, ...], trust: Trust) -> Snapshot:
    pieces = tuple(
        Evidence(f"{'N' if trust is Trust.AGENT else 'C'}{n}", _kind(trust), text, 0.9, trust, NOW)
        for n, text in enumerate(texts, 1)
    )
    return snapshot(TEXT, evidence=pieces)


def _kind(trust: Trust) -> Kind:
    return Kind.NOTE if trust is Trust.AGENT else Kind.CRYSTAL


def reworded(text: str) -> str:
    """As a model would hand it on: a word in front, another order of the halves, some marks gone."""
    words = text.split()
    half = len(words) // 2
    return "Note that " + " ".join(words[half:] + words[:half]).replace(",", "")


def drafted(read_: Snapshot, *, rewrite: bool) -> Draft:
    operations = [
        Operation(Action.ADD, FREE[at % len(FREE)], reworded(piece.text) if rewrite else piece.text, (), (piece.id,))
        for at, piece in enumerate(read_.evidence)
    ]
    whole = " ".join(piece.text for piece in read_.evidence)
    cites = tuple(piece.id for piece in read_.evidence)
    operations.append(Operation(Action.REVISE, SectionName.BOND, f"Anna prefers {whole}", ("L1",), cites))
    operations.append(Operation(Action.ADD, SectionName.POINTERS, whole, (), cites))
    operations.append(Operation(Action.ADD, SectionName.SKILLS, whole, (), cites))
    return Draft(tuple(operations), author="scripted-1")


def new_lines(before: Snapshot, draft: Draft) -> tuple[str, list[str]]:
    after = render(apply(before, judge(before, draft).operations)[0])
    return after, [block.text for _, block in parse(after).lines() if block.key not in OLD]


def drafts(before: Snapshot) -> tuple[Draft, ...]:
    return extract(before), drafted(before, rewrite=False), drafted(before, rewrite=True)


@pytest.mark.parametrize("trusts", variants("own", "every"))
@pytest.mark.parametrize("one", spread(POISONED, 5), ids=lambda one: one.trick.value)
def test_no_poisoned_text_escapes_from_its_line_or_its_quotation(one: Poisoned, *, trusts: str) -> None:
    for trust in Trust if trusts == "every" else (one.trust,):
        before = read(one.parts, trust)
        for draft in drafts(before):
            after, lines = new_lines(before, draft)
            assert escapes(after) == []
            if trust.rank < Trust.AGENT.rank:
                assert [line for line in lines if not is_quoted(line)] == []
            elif trust is Trust.AGENT:
                assert [line for line in lines if reads_as_instruction(line) and not is_quoted(line)] == []


@pytest.mark.parametrize("one", spread(POISONED, 5), ids=lambda one: one.trick.value)
def test_no_poisoned_text_ends_its_quotation_in_a_prompt(one: Poisoned) -> None:
    before = read((*one.parts, one.text), one.trust)
    assert ends_quotation(request(before, [one.text]).user) == []


@pytest.mark.parametrize("one", HONEST, ids=lambda one: one.sort.value)
def test_an_honest_text_of_the_owner_stands_as_it_is_and_a_strangers_as_a_quotation(one: Honest) -> None:
    before = read((one.text,), one.trust)
    draft = Draft((Operation(Action.ADD, SectionName.CONTEXT, one.text, (), (before.evidence[0].id,)),), author="m")
    _, lines = new_lines(before, draft)
    if one.trust is Trust.OWNER:
        assert lines == [one.text]
    elif one.trust is Trust.AGENT and reads_as_instruction(one.text) is None:
        assert [is_quoted(line) for line in lines] == [False]
    elif reads_as_instruction(one.text) is None:
        assert [is_quoted(line) for line in lines] == [True]
