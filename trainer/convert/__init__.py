"""Pretrained models of Hugging Face's `transformers` as models of ours, with routing that changes nothing
yet, and ours as folders that `transformers` loads."""
