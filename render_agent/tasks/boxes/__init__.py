"""Object boxes of scenes: official annotations, generated rooms, and a user's own files, in many formats."""
