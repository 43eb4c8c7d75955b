"""What happened over a span of days: every figure of every version is in one span, on the owner's calendar."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.dreams import dreams
from daemon.config.settings import Config
from daemon.journal.dream import DreamRun
from daemon.journal.life import Life, headline, life
from daemon.journal.summary import Kind, summary
from daemon.workspace.stores import Store
from state.errors import UsageError
from state.stores.history.ledger import Span
from tests.support.long_life import grown
from tests.support.working import working

NOW = datetime(2026, 11, 26, 12, 30, tzinfo=UTC)
DAYS = 100


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with working(tmp_path_factory.mktemp("lived") / "w", Config(timezone="America/New_York")) as store:
        grown(store, NOW, DAYS)
        yield store


def total(store: Store, since: datetime) -> tuple[int, ...]:
    query = "SELECT sum(added + recalled), sum(revised), sum(evicted), sum(closed) FROM versions WHERE at >= ?"
    row = store.connection.execute(query, (since.isoformat(timespec="microseconds"),)).fetchone()
    return tuple(one or 0 for one in row)


@pytest.mark.parametrize(("days", "hours"), [(1, 1), (2, 1), (3, 24), (30, 24), (92, 24), (93, 168), (1_100, 168)])
def test_each_change_is_in_one_span_and_the_last_one_has_the_lines_of_now(
    lived: Store, days: int, hours: int
) -> None:
    found = life(lived, days, NOW)
    assert (found.days, found.hours) == (min(days, DAYS), hours)
    names = ("learnt", "changed", "put_away", "closed")
    sums = tuple(sum(getattr(one, name) for one in found.spans) for name in names)
    assert sums == total(lived, found.start)
    assert [one.at for one in found.spans] == sorted({one.at for one in found.spans})
    (now,) = lived.connection.execute("SELECT count(*) FROM lines WHERE died_in IS NULL").fetchone()
    assert (found.spans[-1].total, found.version) == (now, lived.lineage.last_version())
    assert (found.stop - found.start) / timedelta(days=1) == pytest.approx(found.days, abs=0.05)  # clocks change
    assert headline(found).startswith("Today:" if days == 1 else f"{found.days} days: ")


def test_the_days_are_those_of_the_owner_and_a_day_of_one_run_leads_to_it(lived: Store) -> None:
    found = life(lived, DAYS, NOW)
    assert (found.start.hour, found.stop.hour) == (4, 5)  # midnight in New York, before the clocks change and after
    alone = [one for one in life(lived, 30, NOW).spans if one.dream]
    assert alone
    for span in alone:
        run = lived.ledger.run(span.dream)
        assert span.at <= run.started_at < span.at + timedelta(days=1)
        assert (run.outcome == "failed") is bool(span.failed)
    assert any(one.yours and not one.dream for one in life(lived, DAYS, NOW).spans)
    assert sum(one.usd for one in alone) > 0


def test_a_line_that_was_put_away_and_is_gone_is_counted(lived: Store) -> None:
    found = life(lived, DAYS, NOW)
    (away,) = lived.connection.execute("SELECT count(*) FROM lines WHERE fate = 'evicted'").fetchone()
    assert (found.lost, away > 0) == (0, True)
    assert headline(found).endswith(" put away, none lost.")
    lived.connection.execute("SAVEPOINT here")
    try:
        lived.connection.execute(
            "DELETE FROM crystals WHERE id = (SELECT min(crystal) FROM lines WHERE fate = 'evicted' AND crystal > '')"
        )
        found = life(lived, DAYS, NOW)
        assert (found.lost, headline(found)[-18:]) == (1, "1 forgotten since.")
    finally:
        lived.connection.execute("ROLLBACK TO here")


def test_before_the_first_dream_nothing_has_happened(store: Store) -> None:
    found = life(store, 30, NOW)
    assert (found.days, found.spans, headline(found)) == (1, (), "Nothing has happened yet.")


def test_a_headline_says_only_what_is_so() -> None:
    def said(before: int, *spans: Span, lost: int = 0) -> str:
        lines = {"The Bond": before} if before else {}
        return headline(Life(30, 24, NOW, NOW, lines, spans, 9, lost, 0.5, 5.0))

    def span(lines: int, changed: int = 0, away: int = 0) -> Span:
        return Span(NOW, {"The Bond": lines}, 0, changed, away, 0, 0.0, 0, 0, 1, "")

    assert (
        said(10, span(40, 20), span(59, 4, 2)) == "30 days: from 10 lines to 59. 24 changed, 2 put away, none lost."
    )
    assert said(0, span(3)) == "30 days: from no lines to 3."
    assert said(5, span(5, 0, 2), lost=1) == "30 days: 5 lines, as many as before. 2 put away, 1 forgotten since."
    assert said(5) == "30 days: nothing changed."


def test_runs_are_told_by_kind_and_time_each_once_with_what_the_owner_saved(lived: Store) -> None:
    access = LocalAccess(lived.workspace, lived.config, "test", _store=lived)
    cursor, every = "", list[DreamRun]()
    while True:
        page = dreams.run(access, limit=7, cursor=cursor)
        every += page.dreams
        if not (cursor := page.next_cursor or ""):
            break
    (made,) = lived.connection.execute("SELECT count(*) FROM versions WHERE number > 0").fetchone()
    assert sum(one.version is not None for one in every) == made
    assert [one.run.started_at for one in every] == sorted((one.run.started_at for one in every), reverse=True)
    for kind in Kind:
        told = dreams.run(access, limit=200, kind=kind).dreams
        assert {summary(one).kind for one in told} <= {kind}
        assert len(told) == sum(summary(one).kind is kind for one in every)
    saved = dreams.run(access, limit=200, kind=Kind.OWNER).dreams
    assert {one.version.cause for one in saved if one.version} == {"human", "review"}
    since, until = NOW - timedelta(days=20), NOW - timedelta(days=10)
    some = dreams.run(access, limit=200, since=since, until=until).dreams
    assert list(some) == [one for one in every if since <= one.run.started_at < until]
    for wrong in ("nobody", "9999-99-99 x"):
        with pytest.raises(UsageError):
            dreams.run(access, cursor=wrong)
