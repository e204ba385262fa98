"""What is known of a study before anything is drawn: rows, aggregates, matrices, comparisons, costs, citations."""
