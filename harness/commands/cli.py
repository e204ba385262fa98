"""`bench`: parses the command line and runs the subcommand. It imports nothing heavy, so that help prints fast."""

from __future__ import annotations

import argparse
import functools
import importlib
import re
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

from guidebench.harness import consent
from guidebench.harness.errors import UserError, of_system, unknown
from guidebench.harness.spelling import close
from guidebench.harness.texts import printable

COMMANDS = (
    "list", "show", "run", "pilot", "tune", "ablate", "perturb", "status", "cancel", "track", "eval", "demos", "models",
    "new", "doctor",
)  # fmt: skip
"""Subcommands in `guidebench.harness.commands`; other packages add theirs by the entry point group
`guidebench.commands`. A command is a module with HELP, add_arguments(parser) and run(args) -> exit code."""

FIELD = {
    **dict.fromkeys(("train", "start", "launch", "resume", "continue", "sweep", "exec"), "run, which also continues"),
    **dict.fromkeys(("evaluate", "test", "play", "rollout", "render", "video"), "eval"),
    **dict.fromkeys(("plot", "plots", "figure", "table", "results", "summary"), "report"),
    **dict.fromkeys(("stop", "kill", "abort"), "cancel"),
    **dict.fromkeys(("progress", "ps", "top", "info"), "status"),
    **dict.fromkeys(("config", "settings", "describe"), "show"),
    **dict.fromkeys(("ls", "available"), "list"),
    **dict.fromkeys(("check", "install", "setup", "env"), "doctor"),
    **dict.fromkeys(("init", "create", "scaffold"), "new"),
    **dict.fromkeys(("tensorboard", "wandb", "mlflow", "log"), "track"),
    **dict.fromkeys(("ablation", "ablations"), "ablate"),
    **dict.fromkeys(("power", "difficulty", "claims", "preregister"), "pilot"),
    **dict.fromkeys(("optimize", "optimise", "hpo", "search"), "tune"),
    **dict.fromkeys(("demo", "demonstrations", "demonstrate"), "demos"),
    **dict.fromkeys(("diff", "against"), "compare"),
    **dict.fromkeys(("serve", "dashboard", "live"), "watch"),
    **dict.fromkeys(("annotate", "human"), "label"),
    **dict.fromkeys(("bibtex", "citation", "citations"), "cite"),
    **dict.fromkeys(("version",), "--version"),
}
"""Commands of other programs -> ours."""

EXAMPLES = """\
examples:
  bench list                                              all suites, methods and parts
  bench show method=vlm_rb suite=minigrid_doorkey         every setting, which layer set it, and its source
  bench run suite=minigrid_doorkey method=uer,per,vlm_rb profile=quick seeds=3
  bench run suite=minigrid_doorkey method=vlm_rb replay.lambda_max=0.25,0.5 --dry-run
  bench pilot suite=minigrid_doorkey method=vlm_rb models=scripted --baseline uer    then bench run claims=FILE
  bench ablate suite=minigrid_doorkey method=vlm_rb profile=quick seeds=3 --only lambda_max
  bench perturb suite=minigrid_doorkey method=vlm_rb,per profile=quick seeds=3
  bench run method=pebble,rl_sallm_f chat=scripted profile=quick seeds=3
  bench label runs/NAME                                    answer the questions that wait for a person
  bench run suite=metaworld_mt10 method=sac launcher=slurm launcher.partition=short; bench status runs/NAME
  bench watch runs/NAME                                    a page that follows the study while it trains
  bench report runs/NAME
  bench compare runs/NAME --against measured               compare with stored runs of this project
  bench cite runs/NAME > used.bib
  bench leaderboard runs/NAME measured                     many studies on one page, ranked
  bench submit runs/NAME                                   an archive that others can add and verify
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code; a UserError is printed without a traceback and returns 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    before = warnings.formatwarning
    warnings.formatwarning = _in_a_line
    try:
        if arguments[:1] == ["help"]:  # bench help run
            arguments = [*arguments[1:], "--help"]
        parser, modules, commands = _parser(arguments)
        if (command := _command_word(arguments)) is not None:
            if command not in modules:
                raise _unknown_command(command, arguments[arguments.index(command) + 1 :])
            _check_options(commands[command], arguments[arguments.index(command) + 1 :])
        args, rest = parser.parse_known_args(arguments)
        if args.command is None:
            parser.print_help()
            return 0
        if hasattr(args, "overrides") and not any(word.startswith("-") for word in rest):
            args.overrides, rest = [*args.overrides, *rest], []  # argparse takes no overrides after an option
        if rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        consent.grant(getattr(args, "overrides", ()) if getattr(modules[args.command], "RUNS_CODE", False) else ())
        return int(modules[args.command].run(args))
    except UserError as error:
        print(f"bench: {printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output went away
        return 0
    except OSError as error:
        message = of_system(error)
        if not message:
            raise
        print(f"bench: {message}", file=sys.stderr)
        return 2
    finally:
        warnings.formatwarning = before


def helps(width: int) -> dict[str, str]:
    """Return command -> help text, wrapped at `width` columns: `bench` first, then each command and its subcommands."""
    parser, _, commands = _parser([])
    parsers = {"bench": parser}
    for name, command in commands.items():
        parsers[f"bench {name}"] = command
        for action in command._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers |= {f"bench {name} {sub}": subparser for sub, subparser in action.choices.items()}
    for subparser in parsers.values():
        subparser.formatter_class = functools.partial(argparse.RawDescriptionHelpFormatter, width=width)
    return {name: subparser.format_help() for name, subparser in parsers.items()}


def _unknown_command(word: str, rest: Sequence[str]) -> UserError:
    """Return the error for a word that is no command: what it means here, or the nearest commands."""
    from guidebench.harness import meanings
    from guidebench.harness.spelling import singular

    names = [*COMMANDS, *(plugin.name for plugin in plugged()), "help"]
    if "=" in word:
        return UserError(f"{word!r} is no command; write bench run {' '.join((word, *rest))}")
    if rest and (joined := meanings.spelt(word + rest[0], names)):
        return UserError(f"{word!r} is no command; write bench {' '.join((joined, *rest[1:]))}")
    if command := FIELD.get(word.lower()):
        return UserError(f"{word!r} is no command here; it is bench {command}")
    if singular(word) in (*meanings.KINDS, meanings.TASK) and singular(word) not in names:
        kind = "suite" if singular(word) == meanings.TASK else singular(word)
        return UserError(f"{word!r} is no command; bench list {kind}s lists them")
    hint = "" if close(word, names) else "`bench help` says what each does"
    return unknown("command", word, names, hint)


def _in_a_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning for the user, without the place in our code that raised it."""
    return f"bench: {message}\n" if issubclass(category, UserWarning) else f"{category.__name__}: {message}\n"


def _command_word(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _parser(
    arguments: Sequence[str],
) -> tuple[argparse.ArgumentParser, dict[str, Any], dict[str, argparse.ArgumentParser]]:
    """Return the parser, the modules of its commands, and the parsers of the commands."""
    parser = _Parser(
        prog="bench",
        description="Benchmark of reinforcement learning guided by foundation models.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", metavar="command")
    command = _command_word(arguments)
    modules: dict[str, Any] = {}
    for name in COMMANDS:
        modules[name] = importlib.import_module(f"guidebench.harness.commands.{name}_")
    # Searching installed entry points takes longer than the rest of the start, so a built-in command skips it. Another
    # command loads only its own module; help loads all.
    if command not in COMMANDS:
        for plugin in plugged():
            if command in (None, plugin.name) and (module := _load(plugin)) is not None:
                modules[plugin.name] = module
    return parser, modules, {name: _add(commands, name, module) for name, module in modules.items()}


def _add(commands: Any, name: str, module: Any) -> argparse.ArgumentParser:
    sub: argparse.ArgumentParser = commands.add_parser(
        name,
        help=module.HELP.replace("%", "%%"),
        description=(module.__doc__ or module.HELP).replace("%", "%%"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(sub)
    return sub


def _check_options(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Raise UserError for an unknown option; suggest key=value for a setting and the nearest name for a misspelling."""
    options, settings = _options(parser), any(action.dest == "overrides" for action in parser._actions)
    for index, word in enumerate(words):
        if word == "--":
            if f"--{''.join(words[index + 1 : index + 2])}" in options:
                raise UserError(f"no space in an option; write --{words[index + 1]}")
            return
        name, assigned, value = word.partition("=")
        if name.startswith("--") and "".join(words[index : index + 2]) in options and name not in options:
            raise UserError(f"{name!r}: no space in an option; write {name}{words[index + 1]}")
        if not name.startswith("--") or any(option.startswith(name) for option in options):
            continue
        key, following = name.removeprefix("--").replace("-", "_"), words[index + 1 : index + 2]
        plain = key.replace("_", "")
        near = [option for option in options if option.removeprefix("--").replace("-", "") == plain]
        near = near or close(name, options)[:1]
        if settings and not near and re.fullmatch(r"[a-z_]+(\.[a-z_0-9]+)*", key):
            value_text = value if assigned else next((text for text in following if not re.search("^-|=", text)), "…")
            from guidebench.harness.plan import grammar, unknown_words

            if "." not in key and key not in (words_of_commands := grammar.keys()):
                raise unknown_words.key(key, [value_text], words_of_commands, [], "setting")
            raise UserError(f"settings are no options; write {key}={value_text} instead of {name}")
        option_names = ", ".join(sorted(option for option in options if option.startswith("--")))
        raise UserError(
            f"unknown option {name!r}{f'; did you mean {near[0]!r}?' if near else ''} (known: {option_names})"
        )


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """Return every option of a command and of its subcommands."""
    options = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            options = options.union(*map(_options, action.choices.values()))
    return options


def plugged() -> list[EntryPoint]:
    """Return the entry points of plug-in subcommands; those of this package outside the harness, such as `report`, are
    among them."""
    return sorted(entry_points(group="guidebench.commands"), key=lambda plugin: plugin.name)


def command(name: str) -> Any | None:
    """Return the module of a plug-in subcommand, or None."""
    return next((_load(plugin) for plugin in plugged() if plugin.name == name), None)


def _load(plugin: EntryPoint) -> Any | None:
    """Return the module of a plug-in command after a trial use; print a message and return None if that fails."""
    try:
        if plugin.name in COMMANDS:
            raise TypeError(f"bench has a command {plugin.name!r} of its own")
        module: Any = plugin.load()
        if missing := [name for name in ("HELP", "add_arguments", "run") if not hasattr(module, name)]:
            raise TypeError(f"{plugin.value} has no {' and no '.join(missing)}")
        trial = argparse.ArgumentParser()
        _add(trial.add_subparsers(), plugin.name, module)
        trial.format_help()
    except (Exception, SystemExit) as error:  # a plug-in may raise anything, or end the process
        reason = f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else repr(error)
        print(f"bench: plug-in command {plugin.name!r} is broken and left out: {reason}", file=sys.stderr)
        return None
    return module


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are UserErrors that refer to the command's help."""

    def error(self, message: str) -> NoReturn:
        if choice := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            options = re.findall(r"[\w-]+", choice[2])
            raise unknown(f"argument of {self.prog}:", choice[1], options)
        raise UserError(f"{message}\n{self.format_usage()}`{self.prog} --help` explains what it takes")


class _Version(argparse.Action):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "nargs": 0, "help": "show version and exit"})

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"guidebench {version('guidebench')}")
        parser.exit()
