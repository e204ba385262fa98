"""What a study says: statistics, tables, learning curves and one page, from the record alone."""
