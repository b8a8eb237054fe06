"""Learning a one-word change: a linear model on features, pre-trained, taught one text, tested on a change of it."""

from oneword.learning.attempt import Attempt, Objective, Training
from oneword.learning.interpolator import Interpolator
from oneword.learning.lesson import Lesson

__all__ = ["Attempt", "Interpolator", "Lesson", "Objective", "Training"]
