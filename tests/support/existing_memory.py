"""A home folder in which agents worked on a project before dreamd, with files in the agents' own formats."""

import json
from dataclasses import dataclass
from pathlib import Path

from daemon.ingest.existing_memory import slug

CLAUDE_MD = """# Shop

- The staging database is called heron
- We always deploy on Tuesdays, never on Fridays

See @docs/style.md for the style.
@docs/more.md
"""
TOPIC = """---
name: testing
description: how tests are run
---

Integration tests need the broker on port 5433
"""
HANDBOOK = """# Task Group: the shop, deployments

scope: deployments of the shop
applies_to: cwd={here}; reuse_rule=safe for this checkout

## User preferences

- the user wants release notes before every deployment

# Task Group: another project

applies_to: cwd=/somewhere/else; reuse_rule=only there

## User preferences

- the user keeps llamas
"""
SUMMARY = """thread_id: 0198
updated_at: 2026-11-01T10:00:00+00:00
rollout_path: /nowhere/rollout.jsonl
cwd: {here}

The migration of the orders table took two hours
"""


@dataclass(frozen=True, slots=True)
class Home:
    """A home folder with a project in it."""

    path: Path

    @property
    def project(self) -> Path:
        return self.path / "my_shop"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.path),
            "XDG_STATE_HOME": str(self.path / "state"),
            "XDG_DATA_HOME": str(self.path / "data"),
        }

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def claude_memory(self, folder: Path | None = None) -> Path:
        return self.path / ".claude/projects" / slug(folder or self.project) / "memory"

    def claude_session(self, name: str, cwd: Path, said: str, slugged: Path | None = None) -> Path:
        records = [
            {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
            {
                "type": "user",
                "cwd": str(cwd),
                "sessionId": name,
                "parentUuid": None,
                "timestamp": "2026-11-01T10:00:00Z",
                "message": {"role": "user", "content": said},
            },
        ]
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        return self.write(f".claude/projects/{slug(slugged or cwd)}/{name}.jsonl", lines)

    def codex_session(self, day: str, cwd: Path, said: str) -> Path:
        at = f"2026-{day}T10:00:00Z"
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}
        records = [
            {"timestamp": at, "type": "session_meta", "payload": {"id": f"c{day}", "cwd": str(cwd)}},
            {"timestamp": at, "type": "response_item", "payload": message},
        ]
        month, date = day.split("-")
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        return self.write(f".codex/sessions/2026/{month}/{date}/rollout-2026-{day}T10-00-00-c{day}.jsonl", lines)

    def worked_in(self) -> None:
        self.write("my_shop/CLAUDE.md", CLAUDE_MD)
        self.write("my_shop/AGENTS.md", "# Agents\n\nThe linter is called ruff here\n")
        self.write("my_shop/GEMINI.md", "Answers are given in French\n")
        memory = self.claude_memory()
        self.write(str(memory / "MEMORY.md"), "- [Testing](testing.md): how tests are run here\n")
        self.write(str(memory / "testing.md"), TOPIC)
        self.write(".codex/memories/MEMORY.md", HANDBOOK.format(here=self.project))
        self.write(".codex/memories/rollout_summaries/a.md", SUMMARY.format(here=self.project))
        self.write(".codex/memories/rollout_summaries/b.md", SUMMARY.format(here="/somewhere/else"))
        self.claude_session("one", self.project, "I prefer tabs over spaces in this project")
        self.claude_session("two", self.project / "web", "The web shop runs on port 8443")
        # Claude Code's slug of this folder is the same as the project's.
        self.claude_session("alien", self.path / "my-shop", "We breed alpacas")
        self.codex_session("11-02", self.project, "We decided to use SQLite for the ledger")
        self.codex_session("11-03", self.path / "elsewhere", "We breed ostriches")
