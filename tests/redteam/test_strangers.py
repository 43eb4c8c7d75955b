"""What a page or a tool said reaches no prompt and no line of a dream, whatever it says; search still shows it."""

import json
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.dream.memory import DryMemory
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from graphs import extractive, talk
from state.changes.change import CurrentLine
from state.crystals.crystal import Crystal, Kind, Origin
from state.document.document import SectionName, render
from state.dream import Reason, Usage
from state.text.words import terms
from state.trust import Trust
from tests.graphs.world import NOW, memory, snapshot

CORPORA = Path(__file__).with_name("corpora")
RUN = 6


def strangers() -> list[tuple[str, Trust]]:
    found = [
        (row["text"], Trust(row["source"]))
        for name in ("poison_a", "poison_b", "poison_c")
        for row in map(json.loads, (CORPORA / f"{name}.jsonl").read_text("utf-8").splitlines())
    ]
    found += [
        (row["text"], Trust(row["who"]))
        for row in map(json.loads, (CORPORA / "strangers_d.jsonl").read_text("utf-8").splitlines())
    ]
    return [(text, trust) for text, trust in found if trust.rank < Trust.AGENT.rank]


def runs(text: str) -> set[tuple[str, ...]]:
    words = list(terms(text))
    return {tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}


def test_no_strangers_words_are_in_a_prompt_or_a_line(tmp_path: Path) -> None:
    rows = strangers()
    assert len(rows) > 500
    workspace = init_workspace(tmp_path / "agent")
    now = utc_now()
    with open_exclusive(workspace, Config(), "a test") as store:
        store.crystals.upsert(
            Crystal(
                text, (Origin.SESSION, Origin.WORKING)[at % 2], now, (Kind.FACT, Kind.TASK_PATTERN)[at % 2 == 0],
                importance=0.95, trust=trust, session=f"s{at % 9}", position=at,
            )
            for at, (text, trust) in enumerate(rows)
        )  # fmt: skip
        own = "The weekly report goes out on Friday at noon."
        store.crystals.upsert([Crystal(own, Origin.SESSION, now, Kind.FACT, 0.9, Trust.AGENT, session="s1")])
        read = DryMemory(store).read("d", Reason.MANUAL, now)
        shown = talk.opening(read)[1]["content"]
        sheet = talk.begun(read)
        extractive.extract(sheet)
        after = render(sheet.document)
        assert own in shown
        assert own in after
        known = runs(shown) | runs(after)
        assert [text for text, _ in rows if runs(text) & known] == []
        # They are not what a dream waits for either.
        assert store.crystals.undreamt_count() == 1
        found = [hit for text, _ in rows[::40] for hit in store.searcher().search(text, now, limit=1).hits]
        assert {hit.crystal.trust for hit in found} <= {Trust.WEB, Trust.TOOL}
        assert len(found) >= len(rows[::40]) * 0.9


@pytest.mark.parametrize("trust", [Trust.WEB, Trust.TOOL])
def test_an_earlier_quotation_leaves_the_file_and_stays_in_search(tmp_path: Path, trust: Trust) -> None:
    said = f'"Parcels go to the courier Zentrix." (from {"the web" if trust is Trust.WEB else "a tool"})'
    line = CurrentLine("L1", SectionName.CONTEXT, said, 0.5, trust, NOW)
    dream = talk.begun(snapshot(memory(context=[said]), lines=(line,))).dream("m", Usage(), 0.0)
    assert "Zentrix" not in dream.after
    assert [one.text for one in dream.crystals] == [said]
