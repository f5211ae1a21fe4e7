"""Results in and out of a store: bundles of whole sweeps, runs of other programs, and copies of stores."""
