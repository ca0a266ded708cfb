"""Words of the three languages: their dictionary forms, and what people ask with them."""
