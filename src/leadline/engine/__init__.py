"""Epoch → step, and what listens: events, state, checkpoint, record. Knows no model by name and prints nothing."""
