"""Judges that know no particular suite; those written for one are in its own module."""
