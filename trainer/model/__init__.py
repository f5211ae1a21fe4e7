"""The transformer, and the forms of its parts that train fast on a GPU."""
