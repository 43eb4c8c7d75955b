"""A pointer and what became of it: its line and its uses outlast new keywords, and its coming again."""

from dataclasses import replace

from state.changes.change import Change
from state.crystals.crystal import Crystal, Origin
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import Dream, PointerLine
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import transaction
from state.stores.database.opening import memory_database
from state.stores.history.lineage import Lineage
from tests.support.versions import AT, added, line, pointer

FIRST = Dream(number=1, id="a", at=AT, cause="dream", reason="", before="", after="", mood="")


def test_a_pointer_with_new_keywords_keeps_its_line_and_its_uses() -> None:
    connection = memory_database()
    cat = Crystal("Ada has a cat", Origin.LINE, AT)
    Crystals(connection).learn([cat])
    lineage = Lineage(connection)

    def commit(number: int, *changes: Change) -> list[PointerLine]:
        with transaction(connection):
            lineage.record(replace(FIRST, number=number, id=f"{number}", changes=changes))
        return lineage.pointers(current=True)

    told, old = line("L1", SectionName.BOND, cat.text), pointer("L2", "Ada", "ada cat", cat.id)
    new = pointer("L3", "Ada", "cat owner", cat.id)
    commit(1, *added(told))
    assert commit(2, Change(Why.EVICTED, (told,), (old,))) == [PointerLine("Ada", "ada cat", cat.id, "L1")]
    for _ in range(2):
        lineage.use_pointer("ada cat")
    renewed = PointerLine("Ada", "cat owner", cat.id, "L1", 2)
    assert commit(3, Change(Why.REVISED, (old,), (new,))) == [renewed]
    commit(4, Change(Why.EVICTED, (new,)))
    assert [one.uses for one in commit(5, *added(replace(new, id="L4")))] == [2]
    connection.close()
