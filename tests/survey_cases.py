"""A survey made by hand: every column, every kind of gap, and texts that would break a page."""

import math

import numpy as np
import pandas as pd

EVIL = "</script><script>document.title = 'broken'</script>"
QUOTES = "\"><img src=x onerror=alert('1')>"


def table(text: str, *, maps=("attention", "rf"), seeds=(0, 1), number: int = 0) -> pd.DataFrame:
    """One line a word, map and seed; words are what stands between spaces, rf measures every other one."""
    draw = np.random.default_rng(number)
    lines, at = [], 0
    for index, word in enumerate(text.split()):
        start = text.index(word, at)
        at = start + len(word)
        for name in maps:
            for seed in seeds:
                if name == "rf" and index % 2:
                    continue
                ball, gap = 3 + draw.random(), index % 3 == 2
                lines.append(
                    {
                        "text": number,
                        "window": 0,
                        "position": index + 1,
                        "index": index + 1,
                        "word": word,
                        "start": start,
                        "end": at,
                        "tokens": 1,
                        "n": len(text.split()) + 2,
                        "map": name,
                        "seed": seed,
                        "S_ball": ball,
                        "upper": ball + 1,
                        "radius": 1.0,
                        "random_ball": 0.3,
                        "S_word": math.nan if gap else draw.random(),
                        "replacement": None if gap else QUOTES,
                        "distance": math.nan if gap else 1.4,
                        "kind": None if gap else "exact",
                        "candidates": None if gap else 5,
                        "random_word": math.nan if gap else 0.2,
                        "random_distance": math.nan if gap else 1.3,
                    }
                )
    return pd.DataFrame(lines).astype({"index": "Int64", "start": "Int64", "end": "Int64", "candidates": "Int64"})


def replacements(words: pd.DataFrame) -> pd.DataFrame:
    """Two for each word that has one."""
    known = words[words["S_word"].notna()]
    both = [
        known.assign(rank=rank, replacement=name, value=known["S_word"] / rank)
        for rank, name in ((1, QUOTES), (2, "zebra"))
    ]
    return pd.concat(both, ignore_index=True)


def about(seeds=(0, 1)) -> dict:
    return {
        "encoder": {"encoder": "tiny", "revision": EVIL, "layer": 0, "encoder_width": 8},
        "maps": ["attention", "rf"],
        "seeds": list(seeds),
        "within": {"set": "Ball", "radius": None, "shown": "‖Δ‖ ≤ √d"},
        "words": {"set": "Vocabulary", "words": 5, "shown": "5 words of tiny"},
        "special tokens": ["[CLS]", "[SEP]"],
        "special tokens change": False,
        "d": 8,
    }
