"""A whole review: how much is one of many words worth? A review of the embedded corpus, chosen by a seed.

python examples/long_review.py
"""

import warnings

import oneword as ow

SEED, SHORTEST, LONGEST = 0, 60, 90  # which review, and of how many tokens
LENGTHS = (10, 20, 40)  # its first words, and then all of it


def a_review() -> ow.Context:
    """A review of a length that takes seconds; the seed chooses which."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that cannot be used are skipped, and reported
        texts = ow.Corpus.load().texts
    encoder = ow.Encoder.load()
    # Few letters for that many tokens are not worth encoding.
    likely = [text for text in texts[:2000] if 3 * SHORTEST < len(text) < 6 * LONGEST]
    fitting = [text for text in likely if SHORTEST <= encoder.encode(text, d=1).n <= LONGEST]
    return encoder.encode(fitting[SEED % len(fitting)])


def main() -> None:
    whole = a_review()
    words = ow.Vocabulary.of(whole.encoder, letters=True)
    phi = ow.AttentionFeatures.draw(whole.d, seed=0)
    print(f"a review of {whole.n} tokens, its first words and all of it, softmax attention")
    for count in (*LENGTHS, len(whole.words) - 2):
        end = whole.spans[count][1]
        text = whole.encoder.encode(whole.text[:end])
        own = [i for i, special in enumerate(text.special) if not special]
        some = own[:: max(1, len(own) // 6)]  # a few words, evenly spread
        single = [i for i in some if len(text.rows[i]) == 1]
        ball = ow.sensitivity(phi, text, positions=single, search="quick", certify=ow.Certify.plain(), baseline=8)
        real = ow.sensitivity(phi, text, within=words, positions=single, baseline=0)
        print(
            f"  {text.n:3} tokens: over the ball {ball.value:.2f} ≤ S ≤ {ball.upper:.2f}; "
            f"best real word {real.value:.2f}; mean real word {real.per_word['baseline'].mean():.2f}"
        )
    print("the ball's worst vector does as much in a long text as in a short one; a real word does ever less")


if __name__ == "__main__":
    main()
