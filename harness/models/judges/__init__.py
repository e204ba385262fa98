"""Judges that work with any suite; a judge written for one suite is in that suite's folder."""
