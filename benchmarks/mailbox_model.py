"""A model that is whoever reads: each request is a letter in a folder, and the answer a file that is put beside it.

    with ScriptedModel(Mailbox(folder)) as server: ...          # behind litellm, as any OpenAI-compatible server

`001.request.md` has the messages as text; `001.answer.json` is waited for, as long as it takes. A request that is
asked again word for word, by a run that begins anew, has the answer that lies there.
"""

import threading
import time
from pathlib import Path
from typing import Any

_LOOK_SECONDS = 1.0


class Mailbox:
    """A script for `ScriptedModel` over one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, request: dict[str, Any], _number: int) -> str:
        """Write the letter, and return what somebody has answered."""
        answer = self._answer_to(letter(request))
        return self.wait_for(answer)

    def wait_for(self, answer: Path) -> str:
        """Return the text of this file once there is one and nobody writes to it any more."""
        before = ""
        while True:
            text = answer.read_text("utf-8") if answer.exists() else ""
            if text.strip() and text == before:
                return text
            before = text
            time.sleep(_LOOK_SECONDS)

    def _answer_to(self, text: str) -> Path:
        with self._lock:
            letters = self._letters()
            known = next((one for one in letters if one.read_text("utf-8") == text), None)
            path = known or self._folder / f"{len(letters) + 1:03}.request.md"
            if known is None:
                path.write_text(text, "utf-8")
            return answer_of(path)

    def _letters(self) -> list[Path]:
        return sorted(self._folder.glob("*.request.md"))


def letter(request: dict[str, Any]) -> str:
    """Return the messages of a request as one reads them."""
    return "\n".join(f"===== {one['role']} =====\n\n{one['content'].strip()}\n" for one in request["messages"])


def answer_of(path: Path) -> Path:
    """Return where the answer to a letter is put."""
    return path.with_name(path.name.replace(".request.md", ".answer.json"))
