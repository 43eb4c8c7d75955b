"""Forgetting: what was remembered of a text is nowhere afterwards, and everything else is where it was."""

import json
import os
import sqlite3
from pathlib import Path

import pytest

from daemon import sessions
from daemon.dream.progress import Step
from daemon.dream.run import Mode, dream_now
from daemon.upkeep.examine import check_stores
from daemon.upkeep.forget import Receipt, forget, preview_forget
from daemon.upkeep.forget_plan import ForgetRequest, Said
from daemon.upkeep.forget_proof import searched
from daemon.workspace.adoption import init_workspace
from daemon.workspace.checks import Level
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.ports import Answer
from prompts.replies import read_reply
from state.changes.change import Change
from state.changes.owner import lines_in
from state.changes.page import Page
from state.codec import encode
from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.document.document import parse
from state.document.operations import Action, Operation, Refusal, Why
from state.document.sections import SectionName
from state.dream import Dream, Reason
from state.errors import UsageError
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.stores.database.table import packed, unpacked
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace
from state.stores.erasing.plan import Erasure
from state.stores.history.ledger import Call
from tests.support.copies import all_files
from tests.support.faults import PowerCut
from tests.support.forgettable import (
    BY_HAND,
    KEPT,
    SECRET,
    assert_gone,
    assert_sound,
    bytes_with,
    copied,
    finds,
    forgotten,
    little,
    lived,
    opened,
    quick,
)
from tests.support.lived import versions
from tests.support.repository import git
from tests.support.versions import line, pointer
from tests.support.working import noted


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return lived(tmp_path_factory.mktemp("rich") / "w")


@pytest.fixture(scope="module")
def plain_one(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return little(tmp_path_factory.mktemp("plain") / "w", SECRET)


def forget_quickly(workspace: Workspace, text: str, *kept: str, cut: Cut = Cut.SENTENCES) -> Receipt:
    with quick(workspace) as store:
        return forget(store, ForgetRequest(text, cut, kept), utc_now())


def content(workspace: Workspace) -> dict[str, bytes]:
    """The bytes of every file but those that a mere opening writes."""
    return {
        name: path.read_bytes()
        for name, path in all_files(workspace).items()
        if path.name not in ("lock", "fence", "state.db-wal", "state.db-shm")
    }


def rows(workspace: Workspace) -> list[str]:
    with sqlite3.connect(workspace.database) as connection:
        return list(connection.iterdump())


def test_it_stands_everywhere_before(rich: Workspace) -> None:
    places = bytes_with(rich, SECRET)
    for wanted in (
        "MEMORY.md",
        "MEMORY.md.seed-backup",
        "memory/scratch.md",
        ".dreamd/state.db",
        ".dreamd/checkpoints/dreams.db",
        ".dreamd/state.db.broken",
    ):
        assert wanted in places
    assert any(place.startswith("memory/.scratch.md.") for place in places)
    assert any(place.startswith(".dreamd/inbox.") for place in places)
    with sqlite3.connect(rich.database) as connection:
        told = list(connection.iterdump())
    told += [f'INSERT INTO "versions" {row["text"]}' for row in versions(rich)]
    for table in "crystals lines versions items proposals dreams sessions calls".split():
        assert any(row.startswith(f'INSERT INTO "{table}"') and SECRET[:40] in row for row in told), table


@pytest.mark.parametrize("cut", list(Cut))
def test_afterwards_it_is_nowhere_and_everything_else_is_there(rich: Workspace, tmp_path: Path, cut: Cut) -> None:
    workspace = copied(rich, tmp_path / "w")
    receipt = forgotten(workspace, cut=cut)
    assert bytes_with(workspace, SECRET) == []
    assert bytes_with(workspace, "7731 blue") == []
    assert bytes_with(workspace, "Falconer") == []
    assert (receipt.clean, receipt.went_on) == (True, False)
    assert [(one.place, one.owners) for one in receipt.left] == [("talk.jsonl", True)]
    assert receipt.files > 10
    assert {"MEMORY.md", "checkpoints", "state.db: versions", "state.db: crystals"} <= {
        trace.place for trace in receipt.traces
    }
    assert SECRET not in str(receipt)
    assert ("[forgotten]" in workspace.document.read_text(encoding="utf-8")) is (cut is Cut.WORDS)
    assert_sound(workspace)
    assert bytes_with(workspace, SECRET) == []


def test_a_dry_run_says_what_would_go_and_changes_nothing(rich: Workspace, tmp_path: Path) -> None:
    workspace = copied(rich, tmp_path / "w")
    with opened(workspace):
        pass
    before, told = content(workspace), rows(workspace)
    with opened(workspace) as store:
        receipt = preview_forget(store, ForgetRequest(SECRET), utc_now())
    assert (content(workspace), rows(workspace)) == (before, told)
    assert f"Also {SECRET}" in [said.text for said in receipt.texts]
    assert {place.kind for said in receipt.texts for place in said.places} == {"line", "note", "crystal", "memory"}
    done = forgotten(workspace)
    # A rehearsal does not end the dream that was cut off, whose line gets a crystal, and the log's word of it is
    # another one.
    assert {trace.place for trace in receipt.traces} == {trace.place for trace in done.traces}
    assert receipt.crystals + 1 == done.crystals


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        pytest.param("Falconer", Cut.SENTENCES, id="one word"),
        pytest.param("İstanbul straße Nº 7731", Cut.WORDS, id="folded"),
        pytest.param("İSTANBUL Çağla e\u0301te\u0301 naïve", Cut.SENTENCES, id="marks"),
        pytest.param("暗号は青い七七三一です", Cut.SENTENCES, id="unspaced"),
        pytest.param("비밀번호는 파란색", Cut.WORDS, id="hangul"),
        pytest.param('say "the code" is C:\\new\\7731 and \\u0041 {"a": 1}', Cut.WORDS, id="escapes"),
        pytest.param("the code\nstands on\nthree lines of it", Cut.SENTENCES, id="lines"),
        pytest.param("🦅 falconer’s “quoted” code — 7731", Cut.SENTENCES, id="signs"),
    ],
)
def test_any_text_can_be_forgotten(tmp_path: Path, text: str, cut: Cut) -> None:
    workspace = little(tmp_path / "w", text)
    receipt = forget_quickly(workspace, text, cut=cut)
    for row in text.split("\n"):
        assert_gone(workspace, row)
    assert receipt.clean, receipt.left
    assert [one.place for one in receipt.left] == ["talk.md"]
    document = parse(workspace.document.read_text(encoding="utf-8"))
    assert BY_HAND in [block.text for _, block in document.lines()]
    with quick(workspace) as store:
        assert [one for one in check_stores(store) if one.level is Level.PROBLEM] == []
        for line in KEPT:
            assert any(line in one for one in finds(store, line)), line


class Saving(System):
    """The owner saves in the instant of the swap."""

    def __init__(self, document: Path) -> None:
        self.document = document
        self.saves = 1

    def exchange(self, one: Path, other: Path, /) -> None:
        if self.saves:
            self.saves -= 1
            text = self.document.read_text(encoding="utf-8")
            self.document.write_text(
                text.replace("## The Bond\n", "## The Bond\n- Saved just now\n"), encoding="utf-8"
            )
        super().exchange(one, other)

    def fsync(self, fd: int) -> None: ...


def test_a_save_in_the_instant_of_the_swap_is_kept(plain_one: Workspace, tmp_path: Path) -> None:
    workspace = copied(plain_one, tmp_path / "w")
    with quick(workspace, Saving(workspace.document)) as store:
        forget(store, ForgetRequest(SECRET), utc_now())
    assert "Saved just now" in workspace.document.read_text(encoding="utf-8")
    assert_gone(workspace, SECRET)


def test_what_the_owner_keeps_is_named_and_never_touched(plain_one: Workspace, tmp_path: Path) -> None:
    workspace = copied(plain_one, tmp_path / "w")
    workspace.genome.write_text(f"- Never say that {SECRET}\n", encoding="utf-8")
    talk = workspace.root / "memory" / "talk.txt"
    talk.write_text(SECRET.upper(), encoding="utf-8")
    receipt = forget_quickly(workspace, SECRET)
    assert receipt.clean
    assert {one.place for one in receipt.left if one.owners} >= {"GENOME.md", "memory/talk.txt"}
    assert SECRET in workspace.genome.read_text(encoding="utf-8")
    assert talk.read_text(encoding="utf-8") == SECRET.upper()


def test_a_page_of_the_database_that_keeps_it_is_found(plain_one: Workspace, tmp_path: Path) -> None:
    """The search does not rest on what was done before it: bytes behind the last page are found as well."""
    workspace = copied(plain_one, tmp_path / "w")
    forget_quickly(workspace, SECRET)
    with quick(workspace) as store:
        erasure = Erasure((Target.of(SECRET),), Cut.SENTENCES)
        assert all(one.owners for one in searched(store, erasure, ()).left)
        with workspace.database.open("ab") as file:
            file.write(b"\0" * 100 + SECRET.upper().encode() + b"\0" * (4096 - 100 - len(SECRET)))
        assert [one.place for one in searched(store, erasure, ()).left if not one.owners] == ["state.db"]
        os.truncate(workspace.database, workspace.database.stat().st_size - 4096)


def listed(workspace: Workspace, text: str) -> dict[str, Said]:
    """What would go, by its text."""
    with quick(workspace) as store:
        return {said.text: said for said in preview_forget(store, ForgetRequest(text), utc_now()).texts}


def remembered(store: Store, crystal: Crystal, text: str, led: tuple[str, str] | None = None) -> None:
    """A version with this line, resting on the crystal, and with this pointer (its topic and keywords)."""
    before = (store.memory.disk.read_optional(store.workspace.document) or b"").decode()
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
    return Crystal(text, Origin.LINE, utc_now(), Kind.FACT, lifecycle=Lifecycle.CONSOLIDATED)


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
    assert (receipt.crystals, receipt.pointers) == (3, 1)  # the wording of the line that rests on one alone, too
    text = workspace.document.read_text(encoding="utf-8")
    assert "night zebulon" not in text
    assert "quentin polishes brass" in text
    for trace in ("zebulon", "Night things"):
        assert bytes_with(workspace, trace) == [], trace
    with quick(workspace) as store:
        (pointer,) = store.lineage.pointers(current=True)
        (now,) = store.crystals.get([pointer.crystal])
        assert now.text == "Quentin polishes brass."
        assert [one for one in check_stores(store) if one.level is not Level.OK and one.about == "pointers"] == []
        came = store.memory.version(2).came
        assert [one.crystal for one in came if one.section is SectionName.POINTERS] == [now.id]


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
        store.crystals.learn([crystal(text) for text in (*SAME[3:], "Tom owns a boat")])
        noted(store, SAME[1])
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
        OWNS: ["line", "crystal", "memory"],  # in the same words
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
        noted(store, "The fence of house 8 was painted")
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


HERON = "blue heron nests behind mill 7731"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "w")


def erased(store: Store, text: str = HERON) -> Receipt:
    return forget(store, ForgetRequest(text, Cut.SENTENCES), utc_now())


_CARELESS = json.dumps(
    {
        "operations": [
            {"op": "add", "section": "The Bond", "text": "Ada likes tea in Oslo", "cites": ["N1", "N2"]},
            {"op": "add", "section": "The Niche", "text": "A heron", "cites": [f"N9: {HERON}"], "reason": HERON},
            {"op": "revise", "section": "Nothing", "text": "Herons", "lines": [HERON], HERON: "yes", "id": HERON},
        ],
        "consumed": ["N1", "N2", HERON],
    }
)


def test_where_a_model_puts_it_it_is_found(workspace: Workspace) -> None:
    read = read_reply(_CARELESS, {})
    assert [one.cites for one in read.operations] == [("N1", "N2"), ("?",)]
    assert read.operations[1].lines == ()
    reply = encode(Answer(_CARELESS, "scripted-1", 1, 1, 0.0, "stop", 1.0, estimated=True))
    with quick(workspace) as store:
        noted(store, "Ada likes tea in Oslo")
        dream = dream_now(store, Reason.MANUAL, Mode.AUTO).dream
        store.ledger.record_call(
            dream.id, Call("digest", "scripted-1", reply, usable=False, tokens=1, usd=0.0), utc_now()
        )
        assert any(place.startswith(".dreamd/state.db") for place in bytes_with(workspace, HERON))
        assert erased(store).clean
        assert bytes_with(workspace, HERON) == []
        (row,) = store.connection.execute("SELECT reply, tokens FROM calls").fetchall()
    assert tuple(row) == ("", 1)


def test_what_the_history_cites_and_the_proof_finds_it_by_itself(workspace: Workspace) -> None:
    with quick(workspace) as store:
        noted(store, "Ada likes tea in Oslo")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        odd = Operation(Action.ADD, SectionName.BOND, "Ada", (f"L1 {HERON}",), ("N1", f"N1: {HERON}"))
        connection = store.connection
        record = json.loads(
            unpacked(connection.execute("SELECT record FROM versions WHERE number = 1").fetchone()[0])
        )
        refusal = json.loads(encode(Refusal("citation", "operation", "cites nothing", odd)))
        changed = json.dumps({**record, "refused": [refusal]})
        connection.execute("UPDATE versions SET record = ? WHERE number = 1", (packed(changed),))
        erasure = Erasure((Target.of(HERON),), Cut.SENTENCES)
        assert [one.place for one in searched(store, erasure, ()).left] == ["state.db: versions"]
        assert erased(store).clean
        assert bytes_with(workspace, HERON) == []
        version = store.memory.version(1)
        assert version.refused == ()
        assert "Ada likes tea in Oslo" in [line.text for line in version.came]  # of its text, not of its record


def test_a_database_that_was_put_aside_is_deleted_whatever_its_first_bytes(workspace: Workspace) -> None:
    with quick(workspace) as store:
        noted(store, "Ada likes tea in Oslo", HERON)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    aside = workspace.state / "broken" / "20260101T000000Z" / "state.db"
    aside.parent.mkdir(parents=True)
    aside.write_bytes(b"\0" * 100 + workspace.database.read_bytes()[100:])
    with quick(workspace) as store:
        assert erased(store).clean
    assert not aside.exists()
    assert bytes_with(workspace, HERON) == []


def test_what_was_being_written_when_a_process_ended_is_deleted_under_any_name(workspace: Workspace) -> None:
    left = [
        workspace.root / ".MEMORY.md.dreamd-tmp-zz",
        workspace.scratch.with_name(".scratch.md.dreamd-tmp-1"),
        workspace.state / ".forgotten.json.7.dreamd-tmp",
        workspace.state / ".export-1-abc.db.dreamd-tmp",
    ]
    with quick(workspace) as store:
        noted(store, HERON)
        for path in left:
            path.write_text(f"- {HERON}\n", encoding="utf-8")
        assert erased(store).clean
    assert [path for path in left if path.exists()] == []
    assert bytes_with(workspace, HERON) == []


def test_a_line_goes_as_a_whole_and_nobody_is_said_to_have_deleted_it(workspace: Workspace) -> None:
    with quick(workspace) as store:
        remembered(store, crystal("Bo sings in the choir"), f"Bo sings. The {HERON}.")
        assert erased(store).clean
        settle_document(store)
        assert store.lineage.current_lines() == []
        assert (store.lineage.tombstones(), store.lineage.last_version()) == ([], 1)


@pytest.mark.parametrize("in_repository", [True, False])
def test_a_stranger_s_files_go_where_dreamd_copied_them_and_are_named_where_they_came(
    tmp_path: Path, *, in_repository: bool
) -> None:
    folder, came = tmp_path / "w", list[Path]()

    def bring(root: Path) -> list[Path]:
        came.extend(root / name for name in ("GENOME.md", "memory/scratch.md.seed-backup"))
        for path in came:
            path.write_text(f"- {HERON}\n- Rex is a dog\n", encoding="utf-8")
        return came

    folder.mkdir()
    if in_repository:
        git(folder, "init", "-q")
        (folder / "GENOME.md").write_text(HERON, encoding="utf-8")  # what is copied stays where it came from
    workspace = init_workspace(folder, strangers=bring)
    assert workspace.is_apart is in_repository
    with quick(workspace) as store:
        receipt = erased(store)
    assert receipt.clean
    assert [path.exists() for path in came] == [not in_repository] * 2
    named = {str(folder / "GENOME.md")} if in_repository else {"GENOME.md", "memory/scratch.md.seed-backup"}
    assert {one.place for one in receipt.left} == named
