"""What `make mutants` runs: mutmut over one room with its own tests; prints the mutants that no test noticed.

    python -m tests.mutants state/search            a room, or a file of one
    python -m tests.mutants                         every room of pyproject.toml, one after the other

The copy of the tree in `mutants/` is kept for the next run of the same room, which tries again what has changed.
"""

import ast
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutmut.configuration import config

COPY = Path("mutants")


def run(room: str) -> None:
    """Try every mutant of the room."""
    from mutmut.__main__ import cli

    mark = COPY / "room"
    if COPY.exists() and (not mark.exists() or mark.read_text() != room):
        shutil.rmtree(COPY)
    COPY.mkdir(exist_ok=True)
    mark.write_text(room)
    tests = Path("tests", room)
    config().only_mutate = [room if room.endswith(".py") else f"{room}/*"]
    config().pytest_add_cli_args_test_selection = [str(tests.parent if tests.suffix else tests)]
    cli(["run", "--max-children", "1"], standalone_mode=False)


def report(room: str) -> None:
    """Print each mutant that was not noticed, with its place and the difference, and how many there are of each."""
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.file_utils import walk_mutatable_files

    counts, untried = Counter[str](), set[str]()
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        for name, code in data.exit_code_by_key.items():
            status = status_by_exit_code[code]
            counts[status] += 1
            if status == "no tests":
                untried.add(f"{path}: no test of the room calls {function_of(name)}")
            elif status in ("survived", "suspicious"):
                rows = get_diff_for_mutant(name, path=path).splitlines()
                changed = [row for row in rows if row[:1] in "+-" and row[:3] not in ("+++", "---")]
                print(f"\n{path}:{line_of(Path(path), name, changed)} {status}", *changed, sep="\n")
    print("", *sorted(untried), sep="\n")
    print(f"\n{room}: {', '.join(f'{count} {status}' for status, count in counts.most_common())}")


def function_of(name: str) -> str:
    """Return the function or method, as Owner.method, that the mutant of this name changes."""
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    function, owner = orig_function_and_class_names_from_key(name)
    return f"{owner}.{function}" if owner else function


def line_of(path: Path, name: str, changed: list[str]) -> int:
    """Return the line of the file that the mutant of this name changes first."""
    owner, _, function = function_of(name).rpartition(".")
    text = path.read_text(encoding="utf-8")
    inside: ast.AST = ast.parse(text)
    if owner:
        inside = next(one for one in ast.walk(inside) if isinstance(one, ast.ClassDef) and one.name == owner)
    there = next(one for one in ast.walk(inside) if isinstance(one, ast.FunctionDef) and one.name == function)
    removed = next((row[1:].strip() for row in changed if row.startswith("-")), "")
    lines = list(enumerate(text.splitlines(), 1))[there.lineno - 1 : there.end_lineno]
    return next((number for number, line in lines if line.strip() == removed), there.lineno)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1].strip("/"))
        report(sys.argv[1].strip("/"))
    else:
        for each in config().only_mutate:
            subprocess.run([sys.executable, "-m", "tests.mutants", each.removesuffix("/*")], check=True)
