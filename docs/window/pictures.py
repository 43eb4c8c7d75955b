"""Make the pictures of the window that the documents show: a real daemon over the example, and a real browser.

    python docs/window/pictures.py

It wants Chromium (Debian's package chromium) and Playwright, which `make install` brings. The example's workspace is
copied; notes that replace what was dreamt make changes that apply, and one that waits.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SIZE = (1060, 640)
PORT = 7398
BEFORE = (
    "Ada prefers short answers of one line",
    "The staging server listens on port 8080",
    "Mira reviews pull requests on Mondays",
)
AFTER = (
    "Ada prefers short answers of three lines",
    "The staging server listens on port 9090",
    "Mira reviews pull requests on Thursdays",
)
NEW = (
    "The release goes out on Wednesdays after 14:00",
    "Customs data come weekly as XML, 40 to 61 MB",
)


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="dreamd-") as folder:
        place = Path(folder)
        workspace = place / "parcelbird"
        shutil.copytree(ROOT / "docs" / "example", workspace)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DREAMD_")},
            "HOME": folder,
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_CONFIG_HOME": f"{folder}/config",
            "XDG_RUNTIME_DIR": f"{folder}/run",
            "DREAMD_HTTP__PORT": str(PORT),
        }
        (place / "run").mkdir()

        def dreamd(*words: str | Path, **variables: str) -> str:
            command = [sys.executable, "-m", "daemon", *map(str, words)]
            known = environment | variables
            ended = subprocess.run(command, env=known, cwd=ROOT, capture_output=True, text=True, check=False)
            return ended.stdout

        dreamd("init", workspace)
        serving = subprocess.Popen([sys.executable, "-m", "daemon", "serve"], env=environment, cwd=ROOT)
        try:
            until(lambda: "nobody" not in dreamd("status", workspace))
            for note in BEFORE:
                dreamd("note", "-w", workspace, note)
            dreamd("dream", workspace)
            for number, (old, note) in enumerate(zip(BEFORE, AFTER, strict=True)):
                dreamd("note", "-w", workspace, note, "--replaces", old)
                if not number:
                    dreamd("dream", workspace, DREAMD_DREAM__ASK="all")
            for note in NEW:
                dreamd("note", "-w", workspace, note)
            dreamd("dream", workspace)
            dreamd("bootstrap", "-w", workspace)
            with sync_playwright() as playwright:
                options = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = playwright.chromium.launch(executable_path=chromium, args=options)
                page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
                page.goto(dreamd("open", workspace, "--print").strip())
                take(page, page.url.rpartition("/")[0])
                browser.close()
        finally:
            serving.terminate()
            serving.wait()


def until(happened: Callable[[], bool]) -> None:
    """Wait until it is so, a minute at most."""
    deadline = time.monotonic() + 60
    while not happened():
        if time.monotonic() > deadline:
            raise SystemExit("it did not happen")
        time.sleep(0.5)


def take(page: Page, root: str) -> None:
    """Each picture, as the documents name it."""
    page.goto(f"{root}/today")
    page.screenshot(path=HERE / "today.png")
    page.goto(f"{root}/memory")
    page.get_by_role("link", name="staging server").first.click()
    page.wait_for_selector("#beside h1")
    page.screenshot(path=HERE / "memory.png")
    page.goto(f"{root}/dreams")
    page.screenshot(path=HERE / "dreams.png")


if __name__ == "__main__":
    main()
