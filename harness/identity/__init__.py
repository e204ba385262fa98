"""Identity of cells and runs: the cell record, source digests, package versions and hardware."""
