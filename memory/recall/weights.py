"""What each signal of a ranking weighs: fitted by ``python -m benchmarks.weights``, which prints this table.

A weight is worth its signal's value in the logarithm of the odds that a row holds the answer. ``role`` and ``answered``
are no results of the fit: they were set by hand, since two of the three sets have no assistant, and in none is a stored
question answered.
"""

WITH_VECTORS = {
    "lexical": 3.49,
    "context": 4.5,
    "semantic": 2.83,
    "speaker": 3.26,
    "role": 1.4,
    "session": 1.53,
    "asks": -2.82,
    "empty": -1.7,
    "same": -12.0,
    "answers": 0.24,
    "answered": 6.0,
    "followed": 1.3,
}
WORDS_ALONE = {
    "lexical": 5.27,
    "context": 5.4,
    "speaker": 2.72,
    "role": 1.4,
    "session": 2.64,
    "asks": -1.44,
    "empty": -0.28,
    "same": -12.0,
    "answers": 0.58,
    "answered": 6.0,
}
