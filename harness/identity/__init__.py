"""What makes a cell and a run themselves: the record of a cell, digests of its sources, versions and hardware."""
