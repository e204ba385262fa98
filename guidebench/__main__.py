"""`python -m guidebench` is `bench`."""

from typing import NoReturn

from guidebench.harness import processes
from guidebench.harness.commands.cli import main


def bench() -> NoReturn:
    """The program `bench`."""
    processes.begin()
    try:
        code = main()
    except SystemExit as ended:  # argparse's, for --help and for words it does not know
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    processes.leave(code)


if __name__ == "__main__":
    bench()
