"""How far sweeps and jobs are, read from the store and shown in the terminal."""
