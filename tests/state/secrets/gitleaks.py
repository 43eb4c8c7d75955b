"""The rules of gitleaks as state/secrets/rules/gitleaks.tsv has them.

python -m tests.state.secrets.gitleaks config/gitleaks.toml     writes them anew; version and SHA-256 go into its head
"""

import json
import re
import sys
import tomllib
from pathlib import Path

from state.secrets.rules import FOLDER

FILE = FOLDER / "gitleaks.tsv"
# What context decides better here, what is public, and what takes every git hash for a token.
_UNUSED = re.compile(
    r"generic-api-key|sourcegraph-.*|.*-(?:client|access)-id|.*-pub(?:lic)?-.*|hashicorp-tf-password|mapbox-api-token|curl-auth-.*"
)
# Rules that know a token only by a word before it; any word of its length would do.
_BESIDE = re.compile(r"(?:\(\?i\))?\[\\w\.-\]\{0,50\}\?")
# The end of a token: in a sentence a full stop, a bracket, a letter of another script ends it too.
_END, _OUR_END = "(?:[\\x60'\"\\s;]|\\\\[nr]|$)", r"(?:[^A-Za-z0-9]|$)"


def main(path: Path) -> None:
    head = "".join(f"{row}\n" for row in FILE.read_text("utf-8").splitlines() if row.startswith("#"))
    rules = [row for row in tomllib.loads(path.read_text("utf-8"))["rules"] if "regex" in row]
    lines = []
    for row in (row for row in rules if not _UNUSED.fullmatch(row["id"])):
        source = row["regex"].replace(_END, _OUR_END)
        options = [
            f"{name}={row[key]:g}" for name, key in (("entropy", "entropy"), ("group", "secretGroup")) if row.get(key)
        ]
        look = ["look=drawn"] if _BESIDE.match(source) else []
        lines.append(
            "\t".join(
                (
                    row["id"].replace("-", " "),
                    json.dumps(row.get("keywords", [""]), ensure_ascii=False),
                    " ".join(look + options),
                    source,
                )
            )
        )
    FILE.write_text(head + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
