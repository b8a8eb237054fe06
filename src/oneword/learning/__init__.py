"""Learning a one-word change: a linear model on features is pre-trained, learns one new text, and is tested on a change
of it (T4, T5).

`Interpolator.fit(phi, texts, labels)` pre-trains. `Interpolator.new_sample(X, y)` adds one text, on which the model is
fine-tuned or retrained. `NewSample.find_change`, `lowest_alignment` and `frontier` search for the one-word change of X
(a `WordChange`) that brings the trained model nearest to the opposite label.
"""

from oneword.learning.interpolator import Interpolator
from oneword.learning.new_sample import NewSample, Objective, SearchOptions, Training, WordChange

__all__ = ["Interpolator", "NewSample", "Objective", "SearchOptions", "Training", "WordChange"]
