"""The three languages: words, search terms, sentences, and what people ask and tell in them."""
