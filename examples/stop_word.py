"""Are "the" and "of" safe to change? Every word of a sentence, stop words apart from the others.

The maps have random weights and know nothing of meaning: what differs between words is where their vectors lie, and a
stop word is no safer than another.

python examples/stop_word.py
"""

import oneword as ow

TEXT = "The end of the story is in the hands of a patient reader"
STOP = {"the", "of", "is", "in", "a"}


def main() -> None:
    text = ow.encode(TEXT)
    own = [i for i, special in enumerate(text.special) if not special]  # [CLS] and [SEP] stay as they are
    words = ow.Vocabulary.of(text.encoder, letters=True)
    print(f"{TEXT!r}: one word becomes the worst of {words.count:,} words")
    for label, score in {"softmax attention": "softmax", "ReLU attention": "relu"}.items():
        phi = ow.AttentionFeatures.draw(text.d, score=score, seed=0)
        s = ow.sensitivity(phi, text, within=words, positions=own, baseline=0)
        table = s.per_word.assign(stop=s.per_word["word"].str.lower().isin(STOP))
        print(f"\n{label}: S = {s.value:.3f}, exact, where {s.word!r} becomes {s.replacement!r}")
        for line in table.itertuples():
            bar = "█" * round(30 * line.value / s.value)
            kind = "stop" if line.stop else ""
            print(
                f"  {line.word:8} {kind:4} {line.value:.3f}  random word {line.baseline:.3f}  {bar} {line.replacement}"
            )
        means = table.groupby("stop")["value"].mean()
        print(f"  on average: stop words {means[True]:.3f}, the others {means[False]:.3f}")

    phi = ow.AttentionFeatures.draw(text.d, seed=0)
    ball = ow.sensitivity(phi, text, positions=own, search="quick", certify=ow.Certify.plain(), baseline=16)
    print(f"\nsoftmax attention over the ball ‖Δ‖ ≤ √d: {ball.value:.3f} ≤ S ≤ {ball.upper:.3f}, at {ball.word!r}")


if __name__ == "__main__":
    main()
