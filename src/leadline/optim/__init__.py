"""Update rules and schedules."""

from leadline.optim.gradient import Gradient
from leadline.optim.rule import Rule
from leadline.optim.schedules import SCHEDULES

__all__ = ["SCHEDULES", "Gradient", "Rule"]
