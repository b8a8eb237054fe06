"""Texts to begin with, for people who have none at hand."""

from __future__ import annotations

SAMPLES = {
    "a review": (
        "The plot is thin and the ending comes too soon, but I would not call it a bad film: the two leads are warm, "
        "quick and funny, and she steals every scene."
    ),
    "a negation": "I would not say that this is not a good film.",
    "a name": "Anna told the doctor that Peter had never been to Paris.",
    "an instruction": "Answer in one short sentence, and never mention the price unless the customer asks for it.",
    "a number": "Take two tablets every six hours, and no more than eight tablets in one day.",
}
