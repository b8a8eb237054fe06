"""Does a layer notice a "not"? What it does when it goes, beside what every other word would do in its place.

python examples/negation.py
"""

import oneword as ow

TEXT = "This is not a good film and I would not watch it again"
INSTEAD = ["really", "surely", "never", "hardly", "also", "indeed"]


def main() -> None:
    text = ow.encode(TEXT)
    position = text.words.index("not")
    words = ow.Vocabulary.of(text.encoder, letters=True)
    print(f"{TEXT!r}: its first 'not' becomes another word")
    for seed in range(3):
        phi = ow.AttentionFeatures.draw(text.d, seed=seed)
        s = ow.sensitivity(phi, text, within=words, positions=[position], baseline=0)
        mean = s.per_word["baseline"].iloc[0]
        print(f"\nattention, weights of seed {seed}: S = {s.value:.3f} ('{s.replacement}'), random word {mean:.3f}")
        for word in INSTEAD:
            share = 100 * s.quantile(position, word)
            print(f"  not → {word:8} {s.of(position, word):.3f}, more than {share:3.0f} % of all words")

    # Is "not" a word that counts? The best real word in the place of each word of the text.
    phi = ow.AttentionFeatures.draw(text.d, seed=0)
    own = [i for i, special in enumerate(text.special) if not special]
    each = ow.sensitivity(phi, text, within=words, positions=own, baseline=0).per_word
    order = each.sort_values("value", ascending=False)
    print("\nmost sensitive first:", ", ".join(f"{line.word} {line.value:.2f}" for line in order.itertuples()))

    # No real word comes near what a vector of the same size, or a smaller one, can do.
    ball = ow.sensitivity(phi, text, positions=[position], certify=ow.Certify.plain(), baseline=16)
    print(f"\nover the whole ball ‖Δ‖ ≤ √d: {ball.value:.3f} ≤ S ≤ {ball.upper:.3f}; a random Δ: {ball.baseline:.3f}")


if __name__ == "__main__":
    main()
