"""How long may my chunks be? Up to which length a "not" or an opposite is heard above the noise, in real reviews.

python examples/chunk_length.py
"""

import oneword as ow

NOISE = ("synonym", "stop word", "typo", "punctuation")
SHARE = 0.75


def main() -> None:
    found = ow.audit(lengths=[32, 64], most_texts=14, edits=("negation", "antonym", *NOISE), share=SHARE)
    for type, lines in found.lengths[found.lengths["kind"] == "signal"].groupby("type", sort=False):
        print(f"\n{type}: the share of reviews in which it moves the vector more than their own noise does")
        for line in lines.itertuples():
            print(f"  {line.length:3} tokens: {line.share:.0%} [{line.share_low:.0%}, {line.share_high:.0%}], "
                  f"change {line.change:.3f}, {line.times_noise:.1f} times that of noise")  # fmt: skip
    print()
    for line in found.chunks.itertuples():
        print(f"to hear {line.type} in {SHARE:.0%} of reviews: {line.advice}")

    # Each change was made, so the largest at a length is a lower bound on what one word can do there.
    for length, some in found.edits.groupby("length"):
        print(f"at {length:3} tokens S ≥ {some['change'].max():.2f}")


if __name__ == "__main__":
    main()
