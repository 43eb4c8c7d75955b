"""Place record: whose a prefix of the object store is, said there: with it a lost database is made anew.

TENANT/WORKSPACE/place.json   {"tenant": its name, "workspace": its name}, written once, before any generation
"""

import json
from contextlib import suppress

from state.errors import ConflictError, NotFoundError
from state.fleet.workspace import Place
from state.stores.generations.objects import Objects

PLACE = "place.json"


def write_place(objects: Objects, place: Place) -> None:
    """Write the names of this workspace beside its generations; doing it again is harmless."""
    content = json.dumps({"tenant": place.tenant_name, "workspace": place.name}).encode()
    with suppress(ConflictError):
        objects.put_new(f"{place.prefix}/{PLACE}", content)


def read_place(objects: Objects, tenant: int, workspace: int) -> Place | None:
    """Return the workspace with these numbers, by the names in its record; None without a readable one."""
    try:
        plain = json.loads(objects.get(f"{tenant}/{workspace}/{PLACE}"))
        return Place(workspace, tenant, str(plain["tenant"]), str(plain["workspace"]))
    except (NotFoundError, ValueError, KeyError, TypeError):
        return None
