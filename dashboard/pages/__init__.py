"""The pages, one or two files each."""
