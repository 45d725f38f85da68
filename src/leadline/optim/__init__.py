"""Update rules and schedules."""

from leadline.optim.gradient import Gradient
from leadline.optim.hebb import Hebb
from leadline.optim.least_squares import LeastSquares
from leadline.optim.newton import Newton
from leadline.optim.perceptron import PerceptronRule
from leadline.optim.rule import Rule
from leadline.optim.schedules import SCHEDULES

__all__ = ["SCHEDULES", "Gradient", "Hebb", "LeastSquares", "Newton", "PerceptronRule", "Rule"]
