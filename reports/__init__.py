"""What a study says: statistics, tables, learning curves and one page, from the record alone."""

if __name__ != "guidebench.reports":  # under two names there would be two registries
    raise ImportError(f"this package is guidebench.reports; import it by that name, not as {__name__!r}")
