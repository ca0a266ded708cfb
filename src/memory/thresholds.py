"""Thresholds of similarity, each with its unit; operators' own are stored settings.

``GlobalSettings`` has three on the first scale: ``memory_retrieve_threshold`` (0.6) to find,
``memory_dedup_threshold`` (0.6) to compare and ``memory_update_threshold`` (0.95) for the same
fact.
"""

# Similarity in meaning, 0 to 1 (``EmbeddingSpace.similarity``): 0 is the median of unrelated
# texts, 1 the same text.
RELATED = 0.6  # least of related texts; the 95th percentile of unrelated ones, by definition
NEAR = 0.62  # least of a note shown as the nearest that shares no word with the question
DOUBTFUL = 0.65  # below it a hit without a common word is probably off topic
SUGGESTED = 0.72  # what is shown to a person who asked for something else
SURE = 0.78  # closeness of a note that surely answers; ``benchmarks.irrelevance`` measures it
WEAK = 0.5  # factor of the operator's threshold, for hits that a model searched for and judges

# Added to it for words, without a model: per word that an unsure quote shares, and times the share
# of the question's words that a quote has; the most that a quote is below the best one.
# ``benchmarks.irrelevance`` counts the irrelevant quotes.
SHARED_WORD = 0.05
SHARED_WORDS = 0.1
GAP = 0.15

# Weight of BM25F relative to a centred cosine; ``make bench`` measures it.
LEXICAL_WEIGHT = 0.06

# Of the scores of an older hit, the shares that a newer one needs to stand above it.
LEAST_SCORE, LEAST_BM25 = 0.6, 0.9

# Shares of words.
SAME_MATTER = 0.6  # of the shorter of two statements: both are about the same
REPEATED = 0.5  # of a fact, or of a private message: an answer repeats it
HINTED = 0.01  # of a fact: an answer to a message that told it repeats it

# Confidence of a model, 0 to 1.
UNSURE = 0.5  # below it a fact replaces none of which the model was surer
