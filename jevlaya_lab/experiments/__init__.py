"""Experiments on the lifecycle: each runs, measures, and says whether its hypothesis held."""

from jevlaya_lab.experiments.catalogue import NAMES, find
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import ExperimentStopped

__all__ = ["NAMES", "Claim", "ExperimentResult", "ExperimentStopped", "find"]
