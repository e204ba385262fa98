"""The leaderboard: many studies, read warily (`gathering`), ranked (`ranking`), as one document (`board`) and the page,
CSV and JSON made of it."""
