"""Widgets: the explorer of runs, the playground, and a control panel per experiment."""
