"""The results: computed from the store (`results`), as files and in the terminal, and over REST (`app`).

`results`, `columns`, `formats` and `terminal` import without FastAPI.
"""
