"""Fence: the part of a person's file between two marker rows, which an older dreamd wrote.

A marker is a row that says nothing else; a mention of one inside a row is text.
"""

from dataclasses import dataclass

from state.errors import DocumentError

BEGIN, END = "<!-- dreamd:begin -->", "<!-- dreamd:end -->"
_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r"
# What git leaves in a file that it could not merge.
_CONFLICTS = (b"<<<<<<< ", b">>>>>>> ")


@dataclass(frozen=True, slots=True)
class Fenced:
    """A file with a block: the bytes before it, those from the first marker to the last one, and those after it."""

    before: bytes
    block: bytes
    after: bytes

    @property
    def inside(self) -> str:
        """What stands between the markers, with plain line ends. Raise DocumentError for what is no text."""
        try:
            text = self.block.decode()
        except UnicodeDecodeError as error:
            raise DocumentError("its block is not UTF-8", "save the file as UTF-8 text") from error
        return text[len(BEGIN) : -len(END)].replace("\r\n", "\n").removeprefix("\n")

    def with_block(self, block: bytes) -> bytes:
        """Return the file with another block."""
        return self.before + block + self.after


def fenced(content: bytes) -> Fenced | None:
    """Return the file in its three parts; None without a block.

    Raise DocumentError when it is not clear where the block begins and ends, and inside a conflict of git's.
    """
    begins, ends, conflicts = list[int](), list[int](), False
    at = len(_BOM) if content.startswith(_BOM) else 0
    for row in content[at:].split(b"\n"):
        bare = row.strip(_BLANKS)
        if bare == BEGIN.encode():
            begins.append(at + row.index(bare))
        elif bare == END.encode():
            ends.append(at + row.index(bare) + len(bare))
        conflicts = conflicts or row.startswith(_CONFLICTS)
        at += len(row) + 1
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise DocumentError(
            f"it has {len(begins)} rows '{BEGIN}' and {len(ends)} rows '{END}', not one of each in this order",
            "take out those that are too many, or all, and what stands between them",
        )
    if conflicts:
        raise DocumentError("git could not merge it (rows with <<<<<<< or >>>>>>>)", "resolve the conflict first")
    (begin,), (end,) = begins, ends
    return Fenced(content[:begin], content[begin:end], content[end:])
