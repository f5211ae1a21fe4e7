"""`headcount bench dashboard`: how soon pages draw in a real Chromium, and what a live one costs it."""
