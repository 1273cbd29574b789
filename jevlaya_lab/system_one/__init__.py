"""The runtime: typed questions in, answers out, with hooks around every step."""
