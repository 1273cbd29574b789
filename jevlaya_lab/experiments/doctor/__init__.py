"""The doctor of hooks: puts one through the situations of a run and says what it found."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from jevlaya_lab.experiments.doctor import checks_visits as seen
from jevlaya_lab.experiments.doctor.checks_form import form
from jevlaya_lab.experiments.doctor.patients import Patients
from jevlaya_lab.experiments.doctor.probe import listens_to
from jevlaya_lab.experiments.doctor.report import (
    CHECKS,
    Examination,
    Finding,
    frame_of,
    times_of,
)
from jevlaya_lab.experiments.doctor.situations import SITUATIONS
from jevlaya_lab.experiments.doctor.visits import Visit, visit
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["CHECKS", "Examination", "Finding", "examine"]
