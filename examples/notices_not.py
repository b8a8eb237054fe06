"""Does my encoder notice "not"? Negations in real reviews against edits that change nothing, for an encoder and its
twin with weights drawn anew.

python examples/notices_not.py
"""

import oneword as ow

EDITS = ("negation", "antonym", "synonym", "stop word", "typo", "punctuation")


def main() -> None:
    encoder, twin = ow.TransformerFeatures.load("minilm"), ow.TransformerFeatures.load("minilm", random_init=0)
    found = ow.audit(encoder, references=twin, lengths=[16], most_texts=12, edits=EDITS)
    for model, lines in found.types.groupby("model", sort=False):
        print(f"\n{model}: how far one word moves the vector of a review")
        for line in lines.itertuples():
            against = f"AUC {line.auc:.2f} [{line.auc_low:.2f}, {line.auc_high:.2f}]" if line.kind == "signal" else ""
            interval = f"[{line.change_low:.3f}, {line.change_high:.3f}]"
            print(f"  {line.type:12} {line.kind:6} {line.change:.3f} {interval}  {against}")

    print("\nagainst each kind of noise:")
    for line in found.against[
        (found.against["model"] == encoder.name) & (found.against["type"] == "negation")
    ].itertuples():
        print(f"  a 'not' moves it more than noise by {line.against:12} in {line.auc:.0%} of comparisons")

    # Each change was made, so the largest is a lower bound on what one word can do.
    top = found.edits.loc[found.edits.loc[found.edits["model"] == encoder.name, "change"].idxmax()]
    print(f"\nS ≥ {top['change']:.2f}, attained where {top['was']!r} becomes {top['became']!r} ({top['type']})")


if __name__ == "__main__":
    main()
