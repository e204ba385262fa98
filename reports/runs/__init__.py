"""The page of one run: its files (`record`), its recorded model calls (`calls`) and its episodes as frames
(`episodes`), read with validation and within limits, and the HTML made of them (`page`)."""
