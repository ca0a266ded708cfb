"""What users send besides text: the words in it, read where it can do no harm."""
