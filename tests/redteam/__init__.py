"""Red team: everything that strangers have thrown at dreamd, within a bounded time.

    python -m tests.redteam [--seed N] [--minutes M] [--corpora FOLDER] [--only PART]

The seed is printed first. Corpora of another author (`secrets_*.jsonl`, `harmless_*.jsonl`) may be named. The fuzzers
stop at the first failure, and share what is left of the time: `http` asks what nobody should, and what the OpenAPI
document allows; `parsers` reads valid files, mutated.
"""
