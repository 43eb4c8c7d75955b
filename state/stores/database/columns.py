"""Columns: the kind of text in each column of state.db, for whoever erases, repairs, checks or exports rows.

One table, beside the schema, which says types and no meanings. A test holds it to the schema: a new column of text is
to be told here, and until then counts as prose, which is looked at most closely.
"""

from collections.abc import Mapping
from enum import Enum, auto


class Kind(Enum):
    """What a text is: `CODE` and `MOMENT` are dreamd's own words, the others are somebody's."""

    PROSE = auto()
    CODE = auto()  # ids, digests, members of enumerations, names of models
    FILE = auto()  # what the owner's files are called
    MOMENT = auto()  # as `database.to_text` writes it
    JSON = auto()  # of which the names are dreamd's
    TABLE = auto()  # JSON of which the names are the owner's as well as the values


def _columns(**kinds: str) -> dict[str, Kind]:
    return {column: Kind[kind.upper()] for kind, columns in kinds.items() for column in columns.split()}


COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    "calls": _columns(code="dream digest model", moment="at", json="reply"),
    "crystals": _columns(
        prose="text context speaker session",
        code="id origin kind trust lifecycle pairs",
        moment="created_at last_accessed_at fades_at",
        json="parents",
    ),
    "dreams": _columns(prose="detail", code="id reason outcome", moment="started_at ended_at"),
    "evidence": _columns(prose="crystal", code="line"),
    "feelings": _columns(prose="cause", code="event", moment="at"),
    "forgotten": _columns(code="digest", moment="at"),
    "gaps": _columns(prose="folded question one other", code="cause", moment="first_at last_at"),
    "hormones": _columns(code="armed", moment="at"),
    "item_events": _columns(prose="reason", code="action", moment="at", json="figures"),
    "item_relations": _columns(prose="type target", moment="at", table="metadata"),
    "item_words": _columns(prose="folded"),
    "items": _columns(
        prose="content agent source state_reason promoted_to",
        code="id priority state promotion_reason pairs",
        moment="created_at last_accessed_at expires_at promoted_at",
        json="tags",
        table="metadata",
    ),
    "lines": _columns(prose="text crystal", code="id section trust fate successor", moment="born_at"),
    "meta": _columns(prose="value", code="name"),
    "occurrences": _columns(prose="session", code="digest", file="file", moment="at"),
    "pointers": _columns(prose="keywords topic crystal", code="line"),
    "promotions": _columns(prose="crystal", code="id reason", moment="at delivered_at", json="record"),
    "proposals": _columns(code="dream verdict", moment="at", json="record"),
    "rejections": _columns(prose="figures", code="dream guard scope", moment="at"),
    "sessions": _columns(prose="id", code="policy", moment="opened_at closed_at due_at", json="config"),
    "skills": _columns(prose="pattern"),
    "tombstones": _columns(prose="text", moment="at"),
    "vectors": _columns(code="model"),
    "versions": _columns(code="cause dream reason digest model", moment="at"),
    "watermarks": _columns(file="file", json="record"),
}


def kind_of(table: str, column: str) -> Kind:
    """What the text in this column is; prose, where nobody has said."""
    return COLUMNS.get(table, {}).get(column, Kind.PROSE)
