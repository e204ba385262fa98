"""The leaderboard: it reads many studies with validation (`gathering`), ranks them (`ranking`), and writes the
resulting document (`board`) as a page, CSV and JSON."""
