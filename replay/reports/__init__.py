"""Traces and replays for people and other programs: what changed, side by side, as a timeline, a plot, or spans."""
