"""Environments that methods are compared on, one package each: tasks, how they are drawn, what happens in them."""

if __name__ != "guidebench.suites":  # under two names there would be two registries
    raise ImportError(f"this package is guidebench.suites; import it by that name, not as {__name__!r}")
