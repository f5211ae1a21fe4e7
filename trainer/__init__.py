"""One job: configuration, data, model, residual streams and the training loop. Imports without torch."""
