"""Print a script by which a shell completes commands and options: source <(dreamd completion bash)."""

import argparse
import sys

from daemon.cli import COMMANDS, command

_BASH = """\
_dreamd() {{
    local words
    case "$COMP_CWORD:${{COMP_WORDS[1]}}" in
        1:*) words="{commands}" ;;
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _dreamd dreamd
"""
# zsh has bash's words for it.
_BEFORE = {"bash": "", "zsh": "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n"}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: for which shell."""
    about = "bash and zsh: source <(dreamd completion bash); fish: dreamd completion fish | source"
    parser.add_argument("shell", choices=(*_BEFORE, "fish"), help=about)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    options = {name: _options(name) for name in COMMANDS}
    if arguments.shell == "fish":
        rows = [f"complete -c dreamd -n __fish_use_subcommand -f -a {_option(*row)}" for row in COMMANDS.items()]
        rows += [
            f"complete -c dreamd -n '__fish_seen_subcommand_from {name}' -l {_option(option[2:], about)}"
            for name, some in options.items()
            for option, about in some.items()
        ]
        sys.stdout.write("\n".join(rows) + "\n")
        return 0
    cases = "\n".join(f'        *:{name}) words="{" ".join(some)}" ;;' for name, some in options.items())
    sys.stdout.write(_BEFORE[arguments.shell] + _BASH.format(commands=" ".join(COMMANDS), cases=cases))
    return 0


def _options(name: str) -> dict[str, str]:
    """Return the long options of a command, and what each is for."""
    shown = (one for one in command(name)[0]._actions if one.help != argparse.SUPPRESS)  # noqa: SLF001 - there is no other way
    return {option: one.help or "" for one in shown for option in one.option_strings if option.startswith("--")}


def _option(name: str, about: str) -> str:
    about = " ".join(about.split()).replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%")
    return f"{name} -d '{about}'"
