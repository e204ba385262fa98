"""Programs for people who change the package: which tests reach a line, and which faults the tests notice."""
