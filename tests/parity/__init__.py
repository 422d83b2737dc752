"""Replays recorded decisions of Kueue's scheduler and compares the engine's with them."""
