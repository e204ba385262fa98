"""The engine: command line, configuration, registry, training loop, checkpoints, launchers, models and their calls."""

if __name__ != "guidebench.harness":  # under two names there would be two registries
    raise ImportError(f"this package is guidebench.harness; import it by that name, not as {__name__!r}")
