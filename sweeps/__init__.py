"""What a sweep is: its file, cells, jobs, ids, forecast and statistics. Imports without torch, Ray and SQL.

`spec.load_spec` reads the file, `plan.plan` expands it, `forecast.forecast` says what it costs.
"""
