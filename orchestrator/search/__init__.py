"""What sweeps add to themselves while they run: cells of a search, finer rates, seeds by a rule."""
