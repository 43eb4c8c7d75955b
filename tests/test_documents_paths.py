"""What the pages name is there: paths, names in files (`file.py::name`), folders of code, layers, keys, addresses."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from daemon.api.daemon import HOUSEHOLD
from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "docs/architecture.md", "docs/guarantees.md", "docs/threat-model.md")
CODE = ("daemon", "graphs", "prompts", "state")
# What begins otherwise is a path of a workspace or of a user's home.
_PATH = re.compile(rf"(?:{'|'.join(CODE)}|benchmarks|docs|tests)/[\w./-]*(?:::\w+)?")
# An address over HTTP; `…` and `$ADDRESS` stand for a workspace's.
_ADDRESS = re.compile(
    r"(?:(GET|POST|DELETE) )?(?:(…|\$ADDRESS|/v1/workspaces/[\w-]+)|/v1)/([a-z_]+(?:[/.][a-z_]+)*)(?![\w/-])"
)
_FILE = re.compile(r"[\w-]+\.(?:py|toml|md|json|service)")


def named(page: str) -> Iterator[str]:
    """The paths that a page names; in a row of a table that begins with a folder, the names of its files too."""
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| `([\w/]+/)` \|", line)
        for word in re.findall(r"`([^`\n]+)`", line):
            if _PATH.fullmatch(word):
                yield word
            elif row and _FILE.fullmatch(word):
                yield row[1] + word


def is_there(path: str) -> bool:
    """Whether the file exists, and has a function, a class or a value of the name behind `::`."""
    file, _, name = path.partition("::")
    if not name:
        return (ROOT / file).exists()
    definition = rf"^\s*(?:(?:async )?def|class) {name}\b|^{name}(?::[^=\n]+)? = "
    text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
    return re.search(definition, text, re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES)
def test_every_path_leads_to_a_file_and_every_name_is_in_it(page: str) -> None:
    found = tuple(named(page))
    assert len(found) > 10
    assert [path for path in found if not is_there(path)] == []


def test_every_address_is_one_of_an_operation() -> None:
    found = 0
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for method, workspace, name in _ADDRESS.findall(page.read_text(encoding="utf-8")):
            operation = (OPERATIONS if workspace else HOUSEHOLD).get(name)
            told = f"{page.name}: {method} {workspace}/{name}"
            assert operation is not None or name in ("openapi.json", "workspaces"), told
            assert method != "GET" or operation is None or operation.reads, told
            found += 1
    assert found > 15


def test_every_folder_of_code_has_its_row() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = {f"{path.parent.relative_to(ROOT)}/" for folder in CODE for path in (ROOT / folder).rglob("*.py")}
    rows = set(re.findall(r"^\| `([\w/]+/)` \|", page, re.MULTILINE))
    assert folders ^ rows == {"daemon/", "state/stores/"}


def test_the_layers_are_those_that_are_checked() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^([\w/]+)/ {2,}(.+(?:\n {16}.+)*)", page, re.MULTILINE)
    shown = {folder: [layer.strip() for layer in layers.splitlines()] for folder, layers in blocks}
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    inside = [one for one in tools["importlinter"]["contracts"] if "containers" in one]
    assert shown == {one["containers"][0].replace(".", "/"): one["layers"] for one in inside}


def test_config_yaml_shows_every_key_with_its_default() -> None:
    shown = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    keys = {name: set(section) for name, section in Config().model_dump().items()}
    assert Config.model_validate(shown) == Config()
    assert {name: set(section) for name, section in shown.items()} == keys
