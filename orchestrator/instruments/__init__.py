"""Instruments: what is measured of a trained model. The model is a job's of the store, or a file."""
