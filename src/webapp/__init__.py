"""The page in Telegram (a Mini App): somebody's memory to search, read, correct and take along."""
