"""The results of a study as data, before anything is drawn: rows, aggregates, matrices, comparisons, costs,
citations."""
