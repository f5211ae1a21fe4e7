"""The probe: what the heads of a trained model read of its depth, and whether slices of the width agree."""
