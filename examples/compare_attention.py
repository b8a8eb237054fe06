"""Fig. 1 of the paper on a trained model: what one word does to attention, to the other words and to the whole text.

python examples/compare_attention.py
"""

import oneword as ow

TEXTS = ("I love her much", "I love her smile")


def main() -> None:
    found = ow.compare(*TEXTS)

    # Attention of the first layer, averaged over heads, as in the figure: every word pays 1 in all.
    table = found.attention(layer=1)
    for name, text in zip("ab", TEXTS, strict=True):
        square = table[table["text"] == name].pivot(index="from", columns="to", values="weight")
        words = table[table["text"] == name]["from_word"].unique()
        print(f"{text!r}, layer 1, mean over heads")
        print(square.set_axis(words, axis=0).set_axis(words, axis=1).round(2).to_string(), end="\n\n")

    # Which word moved, and where? The one that changed, and those that did not.
    kept = found.most_moved_kept
    most = found.most_moved
    print(f"moved most: '{most['word_a']}' → '{most['word_b']}', by {most['change']:.2f} at layer {most['layer']}")
    print(f"of the words that stayed: '{kept['word_a']}', by {kept['change']:.2f} at layer {kept['layer']}")
    print(found.layers[["layer", "whole", "pooled", "attention"]].round(3).to_string(index=False))

    # One swap is one change of one word: no more than what the worst word can do.
    whole = found.layers["whole"].iloc[-1]
    print(f"\nso for the last layer of {found.about['model']} at this text, over real words, S ≥ {whole:.3f}")


if __name__ == "__main__":
    main()
