"""Two texts of MEMORY.md as a unified diff."""

import difflib


def unified(before: str, after: str, old: str, new: str) -> str:
    """The difference, with `old` and `new` as the names of both texts; empty when they are the same."""
    rows = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"MEMORY.md ({old})", f"MEMORY.md ({new})", lineterm=""
    )
    return "\n".join(rows)
