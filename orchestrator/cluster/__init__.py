"""Ray and its nodes: connecting, a Ray of this home's own, and what nodes and their cards can hold."""
