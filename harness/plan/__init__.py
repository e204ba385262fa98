"""Planning: parses a command line, selects the part for each role, and resolves settings to cells."""
