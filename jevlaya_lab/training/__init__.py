"""How the embedded checkpoint is made: data readers, examples, recipe and held-out evaluation.

``python -m jevlaya_lab.training --help`` shows the two commands.
"""
