"""Recording what runs did: a hook that keeps plain facts, bounded and private by default."""
