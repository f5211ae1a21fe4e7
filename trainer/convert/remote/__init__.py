"""The code that goes with a model into a Hugging Face folder. It needs `torch` and `transformers` alone."""
