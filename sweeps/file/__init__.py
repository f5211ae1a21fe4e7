"""The sweep file: read, and every mistake in it told by line."""
