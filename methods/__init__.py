"""Methods guided by a foundation model, one folder each."""

if __name__ != "guidebench.methods":  # under two names there would be two registries
    raise ImportError(f"this package is guidebench.methods; import it by that name, not as {__name__!r}")
