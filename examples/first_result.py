"""The first result: which word of a text can move softmax attention most, and how much more than a random change.

python examples/first_result.py
"""

import oneword as ow


def main() -> None:
    text = ow.gaussian(30, 128, seed=0)
    for name, phi in {
        "softmax attention": ow.AttentionFeatures.draw(text.d, seed=0),
        "ReLU attention": ow.AttentionFeatures.draw(text.d, score="relu", seed=0),
        "random features": ow.RandomFeatures.draw(text.n, text.d, k=2000, seed=0),
    }.items():
        s = ow.sensitivity(phi, text, certify=ow.Certify(target=1.2))
        random = s.per_word["baseline"].mean()
        print(f"{name:18} {s.value:.3f} ≤ S ≤ {s.upper:.3f} at {s.word!r}; random changes: {random:.3f}")


if __name__ == "__main__":
    main()
