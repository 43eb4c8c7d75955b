"""A workspace with a hundred planted facts, and where each can be found after later dreams."""

from collections.abc import Sequence
from pathlib import Path

from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace
from daemon.workspace.searching import searched_in
from daemon.workspace.stores import Store, open_readonly, utc_now
from state.stores.crystals.search import search
from state.stores.disk.workspace import Workspace
from state.text.words import normalise
from tests.support import lived
from tests.support.copies import copy_of
from tests.support.serving import noted

_WHO = ("Ada", "Grace", "Linus", "Barbara", "Edsger", "Hedy", "Niklaus", "Radia", "Tove", "Yukihiro")
_FACTS = {
    "keeps the spare key of the {} under flowerpot {}": (
        "boathouse 3, bakery 7, library 12, museum 5, orchard 9, quarry 4, stadium 11, temple 8, vineyard 6, "
        "brewery 2"
    ),
    "prefers {} to {} before noon": (
        "oolong cocoa, cider lemonade, espresso milk, juice kefir, broth porridge, toast muesli, yoghurt cake, "
        "plums olives, herring salmon, rice noodles"
    ),
    "meets the {} auditor on {}": (
        "harbour 2026-04-02, customs 2026-05-19, bank 2026-06-30, tax 2026-07-08, payroll 2026-08-21, "
        "energy 2026-09-14, privacy 2026-10-27, fire 2026-11-05, water 2026-12-16, railway 2027-01-11"
    ),
    "never merges into the {} branch without {}": (
        "falcon Ines, otter Marek, badger Sofia, lynx Pavel, heron Amara, bison Chidi, gecko Noor, marten Luca, "
        "osprey Mei, walrus Finn"
    ),
    "moved the nightly backup of the {} to {}": (
        "lighthouse 03:10, foundry 04:25, glacier 01:40, hospital 02:55, island 05:05, junction 23:30, kiosk 22:15, "
        "lagoon 00:45, mill 03:50, nursery 04:35"
    ),
    "paid {} euros for the {}": (
        "412 lantern, 87 anvil, 1350 telescope, 264 loom, 599 kayak, 73 barometer, 948 harp, 181 saddle, "
        "2275 kiln, 336 compass"
    ),
    "runs the {} service on port {}": (
        "invoice 8443, ticket 9107, picture 7012, weather 6550, parcel 5871, payment 8098, calendar 4610, "
        "archive 9930, survey 7345, voucher 6021"
    ),
    "wants the {} report printed in {}": (
        "quarterly landscape, safety grey, travel booklets, budget duplex, hiring columns, outage braille, "
        "training colour, stock portrait, warranty triplicate, visitor serif"
    ),
    "stores the {} project in /srv/{}": (
        "tulip north/t1, saffron south/s4, indigo east/i9, copper west/c2, velvet attic/v7, marble cellar/m3, "
        "amber tower/a6, cobalt bridge/c8, walnut garden/w5, pepper canal/p0"
    ),
    "was told by {} that the {} lease ends in {}": (
        "Okafor barn June, Larsen chapel August, Moreau depot October, Tanaka greenhouse March, Silva hangar May, "
        "Kowalski kennel July, Haddad loft September, Nguyen pier November, Petrov studio January, Weber vault April"
    ),
}
LINES = tuple(
    f"{who} {what.format(*values.split())}"
    for what, row in _FACTS.items()
    for who, values in zip(_WHO, row.split(", "), strict=True)
)
NEWS = (
    "Hopper found the moth in relay seventy of the panel",
    "The ferry to Oslo is cancelled until the storm has passed",
)
_FIRST = 5


def planted(folder: Path) -> Workspace:
    """Create a workspace with one version of all these lines and no pending notes."""
    from daemon.cli import main

    workspace = init_workspace(folder)
    noted(workspace, LINES)
    assert main(["dream", str(workspace.root)]) == 0
    assert set(LINES) <= set(lived.lines(workspace))
    assert len(lived.document(workspace)) > 2_000
    return workspace


def copied(workspace: Workspace, folder: Path) -> Workspace:
    """Copy the workspace, and add pending notes."""
    copy = copy_of(workspace.root, folder)
    noted(copy, NEWS)
    return copy


def lost(workspace: Workspace, lines: Sequence[str] = LINES) -> list[str]:
    """Return the lines that are neither in MEMORY.md nor found by a pointer or a search."""
    return [line for line, place in whereabouts(workspace, lines).items() if not place]


def whereabouts(workspace: Workspace, lines: Sequence[str] = LINES) -> dict[str, str]:
    """Return where each line is found: "line", "pointer", "search", or "" if it is lost.

    A pointer's keywords, or a search for the line's own words, find it if its exact text is among the first five
    results.
    """
    standing = {normalise(line) for line in lived.lines(workspace)}
    with open_readonly(workspace, Config()) as store:
        pointers = store.lineage.pointers(current=True)
        behind = {text for pointer in pointers for text in _first(store, pointer.keywords)}
        return {line: _place(store, line, standing, behind) for line in lines}


def _place(store: Store, line: str, standing: set[str], behind: set[str]) -> str:
    key = normalise(line)
    if key in standing:
        return "line"
    if key in behind:
        return "pointer"
    return "search" if key in _first(store, line) else ""


def _first(store: Store, words: str) -> set[str]:
    return {normalise(hit.crystal.text) for hit in search(searched_in(store), words, utc_now(), limit=_FIRST).hits}
