"""From a command line to cells: which parts fill which roles, every setting resolved, matrices of cells."""
