"""Forgetting: what hangs on a text (pointers, lines in other words, ids), and what a daemon has open."""

from dataclasses import replace
from pathlib import Path

import pytest

from daemon import sessions
from daemon.dream.progress import Step
from daemon.dream.run import Mode, dream_now
from daemon.upkeep.examine import Level, check_stores
from daemon.upkeep.forget import Receipt, forget, preview_forget
from daemon.upkeep.forget_plan import ForgetRequest, Said
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, utc_now
from state.changes.change import Change
from state.changes.owner import lines_in
from state.changes.page import Page
from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.document.document import SectionName, parse
from state.document.operations import Why
from state.dream import Dream, Reason
from state.errors import UsageError
from state.forgetting.cutting import Cut
from state.stores.disk.workspace import Workspace
from tests.support.faults import PowerCut
from tests.support.forgettable import bytes_with, copied, finds, note, quick
from tests.support.versions import line, pointer


def forget_quickly(workspace: Workspace, text: str, *kept: str, cut: Cut = Cut.SENTENCES) -> Receipt:
    with quick(workspace) as store:
        return forget(store, ForgetRequest(text, cut, kept), utc_now())


def listed(workspace: Workspace, text: str) -> dict[str, Said]:
    """What would go, by its text."""
    with quick(workspace) as store:
        return {said.text: said for said in preview_forget(store, ForgetRequest(text), utc_now()).texts}


def remembered(store: Store, crystal: Crystal, text: str, led: tuple[str, str] | None = None) -> None:
    """A version with this line, resting on the crystal, and with this pointer (its topic and keywords)."""
    before = (store.disk.read_optional(store.workspace.document) or b"").decode()
    page = Page(before, lines_in(parse(before), store.lineage.current_lines()), store.lineage.next_line())
    page.change(Change(Why.ADDED, (), (line("", SectionName.CONTEXT, text),), (crystal.id,)))
    if led is not None:
        page.change(Change(Why.ADDED, (), (pointer("", *led, crystal.id),)))
    now = utc_now()
    store.memory.commit(
        Dream(
            number=store.lineage.last_version() + 1, id=f"{now:%Y%m%dT%H%M%S%f}Z", at=now, cause="dream",
            reason="manual", before=before, after=page.text(now, "calm"), mood="calm", changes=tuple(page.changes),
            crystals=(crystal,),
        )
    )  # fmt: skip


def crystal(text: str) -> Crystal:
    made = Crystal(text, Origin.EVICTED, utc_now(), Kind.FACT, lifecycle=Lifecycle.CONSOLIDATED)
    return replace(made, id=made.digest)  # as an older dreamd named it


def test_a_pointer_to_what_is_gone_goes_and_one_to_what_is_left_stays(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "w")
    gone, left = (
        crystal("Zebulon rides the falcon at night"),
        crystal("Quentin polishes brass. Zebulon rides the falcon."),
    )
    with quick(workspace) as store:
        remembered(store, gone, "One line", ("Night things", "night zebulon"))
        remembered(store, left, "Two lines", ("Metal", "quentin polishes brass"))
    receipt = forget_quickly(workspace, "rides the falcon")
    assert (receipt.crystals, receipt.pointers) == (2, 1)
    text = workspace.document.read_text(encoding="utf-8")
    assert "night zebulon" not in text
    assert "quentin polishes brass" in text
    for trace in ("zebulon", gone.id, left.id, "Night things"):
        assert bytes_with(workspace, trace) == [], trace
    with quick(workspace) as store:
        (pointer,) = store.lineage.pointers(current=True)
        (now,) = store.crystals.get([pointer.crystal])
        assert now.text == "Quentin polishes brass."
        assert [one for one in check_stores(store) if one.level is not Level.OK and one.about == "pointers"] == []
        assert [one.crystal for one in store.memory.version(2).came if one.crystal] == [now.id]


def test_what_was_made_of_it_in_other_words_is_listed_and_erased_unless_it_is_kept(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "w")
    source = Crystal("Zebulon rides the falcon", Origin.SESSION, utc_now())
    insight = Crystal("He has a large bird", Origin.DREAM, utc_now(), parents=(source.id,))
    with quick(workspace) as store:
        remembered(store, source, "Someone flies at night")
        remembered(store, insight, "The weather is fine")
    other = copied(workspace, tmp_path / "other")
    found = listed(workspace, "rides the falcon")
    assert {text: said.derived for text, said in found.items()} == {
        "Someone flies at night": True,
        "The weather is fine": True,  # it rests on the insight alone
        "Zebulon rides the falcon": False,
        "He has a large bird": True,
    }
    forget_quickly(workspace, "rides the falcon")
    for text in found:
        assert bytes_with(workspace, text) == []
    forget_quickly(other, "rides the falcon", found["He has a large bird"].places[0].id)
    assert bytes_with(other, "rides the falcon") == bytes_with(other, "Someone flies at night") == []
    assert "The weather is fine" in other.document.read_text(encoding="utf-8")
    with quick(other) as store:
        assert finds(store, "large bird") == ["He has a large bird"]


OWNS = "Tom owns Grafana, ask him first"
SAME = (
    OWNS,
    "As before: Tom owns Grafana, ask him first.",
    "TOM OWNS Grafana — ask him first!",
    "Grafana dies at night. Tom owns Grafana; ask him first. The lamp is new.",
    "Tom owns Grafana",
)


@pytest.fixture(scope="module")
def five_times(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A line, a note, three crystals, a memory of a session that say one thing, and one that says another."""
    workspace = init_workspace(tmp_path_factory.mktemp("five") / "w")
    with quick(workspace) as store:
        remembered(store, crystal("Tom has the dashboards"), OWNS)
        store.crystals.upsert([crystal(text) for text in (*SAME[3:], "Tom owns a boat")])
        note(store, SAME[1])
        sessions.add(store, "s", sessions.Draft(SAME[2], "high"), utc_now())
    return workspace


def test_everything_that_says_the_same_as_a_line_is_listed_with_an_id_and_goes(
    five_times: Workspace, tmp_path: Path
) -> None:
    workspace = copied(five_times, tmp_path / "w")
    with quick(workspace) as store:
        (line,) = store.lineage.current_lines()
    found = listed(workspace, line.id)
    kinds = {text: [place.kind for place in said.places] for text, said in found.items()}
    assert kinds == {
        OWNS: ["line", "memory"],  # in the same words
        SAME[1]: ["note"],
        "Tom has the dashboards": ["crystal"],  # of which nothing but this line was made
        SAME[3]: ["crystal"],
        SAME[4]: ["crystal"],
    }
    assert found[OWNS].places[0].id == line.id
    assert forget_quickly(workspace, line.id).clean
    assert bytes_with(workspace, "Tom owns Grafana") == bytes_with(workspace, "dashboards") == []
    with quick(workspace) as store:
        assert finds(store, "Grafana lamp") == ["Grafana dies at night. The lamp is new."]
        assert finds(store, "Tom boat") == ["Tom owns a boat"]


@pytest.mark.parametrize("kept", [OWNS, *SAME[1:2], *SAME[3:]])
def test_what_is_kept_stays_whole_and_all_others_go(five_times: Workspace, tmp_path: Path, kept: str) -> None:
    workspace = copied(five_times, tmp_path / "w")
    found = listed(workspace, OWNS)
    receipt = forget_quickly(workspace, OWNS, found[kept].places[-1].id)
    assert receipt.clean, receipt.left
    assert list(listed(workspace, "Tom owns Grafana")) == [kept]
    with quick(workspace) as store:  # and what is kept can be found and learnt
        note(store, "The fence of house 8 was painted")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert list(listed(workspace, "Tom owns Grafana")) == [kept]
    assert bytes_with(workspace, kept)


def test_what_is_kept_stays_so_over_a_crash_and_no_other_id_is_taken(five_times: Workspace, tmp_path: Path) -> None:
    workspace = copied(five_times, tmp_path / "w")
    kept = listed(workspace, OWNS)[SAME[3]].places[0].id

    def interrupt(step: Step) -> None:
        if step.node == "files":
            raise PowerCut

    with quick(workspace) as store, pytest.raises(PowerCut):
        forget(store, ForgetRequest(OWNS, kept=(kept,)), utc_now(), interrupt)
    assert forget_quickly(workspace, "").went_on
    assert list(listed(workspace, "Tom owns Grafana")) == [SAME[3]]
    with quick(workspace) as store, pytest.raises(UsageError, match="nobody: no text of this id would go"):
        forget(store, ForgetRequest(OWNS, kept=("nobody",)), utc_now())
