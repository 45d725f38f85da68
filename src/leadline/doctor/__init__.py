"""Says in words what is wrong, before, during and after a run."""

from leadline.doctor.checkup import before
from leadline.doctor.codes import CODES
from leadline.doctor.finding import Finding
from leadline.doctor.nonfinite import locate
from leadline.doctor.verdict import after
from leadline.doctor.watch import Watch

__all__ = ["CODES", "Finding", "Watch", "after", "before", "locate"]
