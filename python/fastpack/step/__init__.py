"""A training step of sequences of all lengths: shared among ranks, packed into micro-batches, and put back in their order."""

from fastpack.step.plan import StepPlan, plan_step

__all__ = ["StepPlan", "plan_step"]
