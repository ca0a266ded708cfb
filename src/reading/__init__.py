"""What texts say, in three languages: words, relations, times, requests; no I/O."""
