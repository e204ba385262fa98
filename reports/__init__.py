"""Statistics, tables, learning curves and pages about studies, computed from their records alone."""

if __name__ != "guidebench.reports":  # Importing it under two names would create two registries.
    raise ImportError(f"this package is guidebench.reports; import it by that name, not as {__name__!r}")
