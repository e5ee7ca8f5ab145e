"""The time in which servers and cluster managers must answer, before a cluster counts as away.

A machine under load may take longer for a first answer than a user wants to wait for one that is away. So the first
limit is short, and the question is asked once more, with more time, before an error says that there is no answer.
"""

from __future__ import annotations

ANSWER_LIMIT_S = 2.5
"""The time for an answer to a call whose failure is harmless, or is asked again."""
ANSWER_LIMITS_S = (ANSWER_LIMIT_S, 10.0)
"""The times for the answers to a question that is asked again, one after the other."""
