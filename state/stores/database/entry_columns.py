"""Entry columns: what the tables of entries hold, for whoever erases, checks or exports their rows."""

import json
import math
from array import array
from collections.abc import Mapping

from state.stores.database.table import Column, Kind, is_moment


def _table(kind: type[dict[str, object]] | type[list[object]]) -> Column:
    def passes(text: str) -> bool:
        read = json.loads(text)
        return isinstance(read, kind) and (kind is dict or all(isinstance(one, str) for one in read))

    return Column(Kind.TABLE, passes)


def _is_unit(value: bytes) -> bool:
    """Return whether this is a vector of single floats of length 1 (or 0)."""
    if not value or len(value) % 4:
        return False
    square = math.fsum(number * number for number in array("f", value))
    return abs(square - 1) < 1e-3 or square == 0


_AT = Column(Kind.MOMENT, is_moment)
COLUMNS: Mapping[str, Mapping[str, Column]] = {
    "entries": {
        "namespace": Column(Kind.WHOLE, _table(list).rule),
        "name": Column(Kind.WHOLE),
        "value": _table(dict),
        "fields": _table(list),
        "created_at": _AT,
        "updated_at": _AT,
        "expires_at": _AT,
        "embedded_by": Column(Kind.CODE),
    },
    "entry_vectors": {"vector": Column(Kind.CODE, _is_unit)},
}
