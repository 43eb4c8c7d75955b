"""The house keeps its measures: a room has about a dozen files, a file 600 lines, a function 60."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("daemon", "graphs", "prompts", "state")
MOST_FILES, MOST_LINES, MOST_OF_A_FUNCTION = 13, 600, 60
MOST_TERSE = 4  # words of a first line
MORE_FILES = {"daemon/cli": 19}
OWNED = set(
    "pyproject.toml README.md config.yaml daemon graphs prompts state tests LICENSE CHANGELOG.md CONTRIBUTING.md"
    " Makefile requirements.lock docs benchmarks deploy .ci .gitignore".split()
)


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (ROOT / folder).rglob("*.py")


def rooms() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sources(*PACKAGES):
        if path.name not in ("__init__.py", "__main__.py"):
            found.setdefault(str(path.parent.relative_to(ROOT)), []).append(path)
    return found


def test_a_room_has_about_a_dozen_files() -> None:
    assert {
        name: len(files) for name, files in rooms().items() if len(files) > MORE_FILES.get(name, MOST_FILES)
    } == {}


@pytest.mark.parametrize("folders", [PACKAGES, ("tests", "benchmarks")], ids=["product", "tests"])
def test_a_file_has_six_hundred_lines_at_most(folders: tuple[str, ...]) -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources(*folders)}
    assert {name: size for name, size in sizes.items() if size > MOST_LINES} == {}


def test_every_module_begins_with_what_it_is_for_and_a_function_has_sixty_lines_at_most() -> None:
    silent, long = [], []
    for path in sources(*PACKAGES):
        module = ast.parse(path.read_text())
        text = ast.get_docstring(module) or ""
        if len(text.partition("\n")[0].split()) < MOST_TERSE:
            silent.append(str(path.relative_to(ROOT)))
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > MOST_OF_A_FUNCTION:
                    long.append(f"{path.relative_to(ROOT)}: {node.name} {size}")
    assert (silent, long) == ([], [])


def test_the_top_level_is_the_owners() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert {line.split("/")[0] for line in listed.splitlines()} <= OWNED
