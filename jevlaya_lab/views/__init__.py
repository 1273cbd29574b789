"""Pictures: a pure layout from frames, then thin writers."""
