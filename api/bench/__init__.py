"""`headcount bench api`: how fast results are stored, computed and answered, on a store filled for it."""
