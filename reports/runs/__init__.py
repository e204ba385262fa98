"""The page of one run: what its files say (`record`), its recorded model calls (`calls`), its episodes on film
(`episodes`), read warily and within bounds, and the HTML made of them (`page`)."""
