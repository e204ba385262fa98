"""Environments on which methods are compared, one package each: tasks, drawing and scripted solvers."""

if __name__ != "guidebench.suites":  # under two names there would be two registries
    raise ImportError(f"this package is guidebench.suites; import it by that name, not as {__name__!r}")
