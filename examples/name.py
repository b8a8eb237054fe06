"""Does it matter who it was? Names put in the place of a name, beside the average word of the vocabulary.

python examples/name.py
"""

import oneword as ow

TEXT = "Anna thanked the doctor and went home"
NAMES = ["maria", "john", "mohammed", "emily", "wei", "olga", "david", "fatima"]


def main() -> None:
    text = ow.encode(TEXT)
    position = text.words.index("Anna")
    names = ow.Words.of(text.encoder, NAMES)
    everything = ow.Vocabulary.of(text.encoder, letters=True)
    maps = {
        "softmax attention": ow.AttentionFeatures.draw(text.d, seed=0),
        "ReLU attention": ow.AttentionFeatures.draw(text.d, score="relu", seed=0),
    }
    print(f"{TEXT!r}: 'Anna' becomes another name, or any word")
    for label, phi in maps.items():
        among = ow.sensitivity(phi, text, within=names, positions=[position], baseline=0)
        whole = ow.sensitivity(phi, text, within=everything, positions=[position], baseline=0)
        table = among.replacements(position, top=len(NAMES))
        mean = whole.per_word["baseline"].iloc[0]
        print(f"\n{label}: names move it by {table['value'].mean():.3f} on average, words by {mean:.3f}")
        for line in table.itertuples():
            bar = "█" * round(40 * line.value / whole.value)
            print(f"  Anna → {line.replacement:10} {line.value:.3f}  ‖Δ‖ = {line.distance:.2f} √d  {bar}")
        print(f"  the word that moves it most: '{whole.replacement}', S = {whole.value:.3f}, exact")

    # All eight vectors lie outside the ball that the theory is about; this is what the ball itself allows.
    ball = ow.sensitivity(maps["softmax attention"], text, positions=[position], certify=ow.Certify.plain(), baseline=0)
    print(f"\nsoftmax attention over the ball ‖Δ‖ ≤ √d: {ball.value:.3f} ≤ S ≤ {ball.upper:.3f}")


if __name__ == "__main__":
    main()
