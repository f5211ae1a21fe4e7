"""Figures for papers: what a page draws, written without a browser as SVG, PNG, PDF, CSV and LaTeX."""
