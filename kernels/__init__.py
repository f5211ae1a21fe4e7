"""Depth routing: the operation by which a site reads the depth history."""

from headcount.kernels.definition import route_by_definition, routing_weights
from headcount.kernels.routing import route

__all__ = ["route", "route_by_definition", "routing_weights"]
