"""A key of the user's file is changed, and nothing else of the file."""

from functools import partial
from pathlib import Path

import pytest
import yaml

from daemon.config.edit import edited, without
from state.errors import ConfigError
from tests.support.running import Caller

OURS = (Path(__file__).parents[3] / "config.yaml").read_text(encoding="utf-8")
# A text, what it becomes with model.name: x, and without model.name (None: it has none).
CASES = [
    ("", "model:\n  name: x\n", None),
    ("# mine", "# mine\nmodel:\n  name: x\n", None),
    ("model:", "model:\n  name: x\n", None),
    ("model:\n  # of the model\ndream: {}\n", "model:\n  name: x\n  # of the model\ndream: {}\n", None),
    ("model: {} # c\n", "model: {name: x} # c\n", None),
    ("model: null\n", "model: {name: x}\n", None),
    ("{log: {level: info}}\n", "{model: {name: x}, log: {level: info}}\n", None),
    ("model:\n    api_base: y\n", "model:\n    name: x\n    api_base: y\n", None),
    ("model:\n  name:\n# c\n", "model:\n  name: x\n# c\n", "# c\n"),
    ("model: {name: 'y', api_base: z}\n", "model: {name: x, api_base: z}\n", "model: {api_base: z}\n"),
    ("model: {api_base: z, name: y}\n", "model: {api_base: z, name: x}\n", "model: {api_base: z}\n"),
    ("model:\n  name: yy  # c\n", "model:\n  name: x   # c\n", "model:\n  # name: yy  # c\n"),
    ("model:\r\n  name: y\r\nlog: {}\r\n", "model:\r\n  name: x\r\nlog: {}\r\n", "log: {}\r\n"),
    ("model:\n  name: |\n    y\n# c\nlog: {}\n", "model:\n  name: x\n# c\nlog: {}\n", "# c\nlog: {}\n"),
    ("model:\n  name:\n    - y  # c\n", ConfigError, ConfigError),
    ("log: &a {level: info}\nmodel: *a\n", ConfigError, None),
]


@pytest.mark.parametrize(("text", "with_it", "without_it"), CASES)
def test_only_the_key_changes(text: str, with_it: object, without_it: object) -> None:
    path = ["model", "name"]
    changes = (partial(edited, text, path, "x"), with_it), (partial(without, text, path), without_it)
    for change, expected in changes:
        if expected is ConfigError:
            with pytest.raises(ConfigError, match="by hand"):
                change()
        else:
            assert change() == expected


def test_what_looks_like_a_comment_in_a_value_is_none() -> None:
    text = 'a:\n  - "x #1"\n  # why\n  - y\nb: |\n  c #2\n# end\n'
    with pytest.raises(ConfigError, match="by hand"):
        edited(text, ["a"], ["x #1 #2 #3"])
    assert edited(text, ["b"], "d") == text.replace("|\n  c #2", "d")


KEYS = "timezone model.name dream.ask dream.heard sources.transcripts log.form"


@pytest.mark.parametrize("key", KEYS.split())
def test_in_our_own_file_every_other_line_stays_as_it_is(key: str) -> None:
    path, rows = key.split("."), OURS.splitlines()
    table, new, left = yaml.safe_load(edited(OURS, path, "a: b")), edited(OURS, path, "a: b"), without(OURS, path)
    for one in path:
        table = table[one]
    assert table == "a: b"
    assert left is not None
    for changed in (new, left):
        assert len(set(rows) - set(changed.splitlines())) <= 2
        assert all(row.partition("#")[2] in changed for row in rows)
    with pytest.raises(ConfigError):  # its own keys have comments
        without(OURS, ["dream"])


def test_the_command_writes_what_is_valid_into_a_private_file(dreamd: Caller, tmp_path: Path) -> None:
    real, file = tmp_path / "dotfiles" / "c.yaml", tmp_path / "link.yaml"
    file.symlink_to(real)
    for words, status, said in (
        ("set dream.askk own", 2, "is 'dream.ask' meant?"),
        ("set dream.ask sometimes", 2, "'own' or 'all'"),
        ("set secrets.allow hunter2", 2, "secrets.allow is wrong"),
        ("unset dream.ask", 3, "does not set dream.ask"),
        ("set dream.ask", 2, "set KEY VALUE"),
    ):
        ended = dreamd("config", *words.split(), "--config", file)
        assert (ended.status, said in ended.err, "hunter2" in ended.err) == (status, True, False), ended.err
    assert not real.exists()
    set_ = dreamd("config", "set", "dream.ask", "all", "--config", file, "--json")
    assert [one["value"] for one in set_.json["entries"]] == ['"all"']
    assert (set_.json["daemon"], real.stat().st_mode & 0o777) == ("no daemon runs", 0o600)
    assert dreamd("config", "set", "model.api_base", "http://me:pass@host/v1", "--config", file).out == (
        'model.api_base is "http://[redacted]@host/v1"\n'
    )
    assert dreamd("config", "unset", "dream.ask", "--config", file).out == 'dream.ask is "own"\n'
    assert real.read_text() == "model:\n  api_base: http://me:pass@host/v1\n"
