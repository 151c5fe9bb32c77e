"""What a compiled call needs while it runs: thread pool, arena, call path."""
