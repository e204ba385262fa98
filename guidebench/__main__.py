"""`python -m guidebench` runs `bench`."""

from typing import NoReturn

from guidebench.harness import processes
from guidebench.harness.commands.cli import main


def bench() -> NoReturn:
    """Run the program `bench`."""
    processes.begin()
    try:
        code = main()
    except SystemExit as ended:  # raised by argparse for --help and usage errors
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    processes.leave(code)


if __name__ == "__main__":
    bench()
