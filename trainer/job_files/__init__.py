"""What a job leaves on disk: checkpoints, curves and the model, written whole or not at all."""
