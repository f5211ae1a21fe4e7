"""Depth routing: the operation by which a site reads the depth history."""

from headcount.kernels.choice import IMPLEMENTATIONS, Choice, choose, with_launch
from headcount.kernels.definition import route_by_definition, routing_weights
from headcount.kernels.delta_history import DeltaHistory
from headcount.kernels.history import DepthHistory
from headcount.kernels.routing import route, route_groups

__all__ = [
    "IMPLEMENTATIONS",
    "Choice",
    "DeltaHistory",
    "DepthHistory",
    "choose",
    "route",
    "route_by_definition",
    "route_groups",
    "routing_weights",
    "with_launch",
]
