"""The page of one run: its files (`record`), its recorded model calls (`calls`), its episodes as frames (`episodes`)
and in words (`transcripts`), read with validation and within limits, and the HTML made of them (`page`)."""
