"""Why a question went as it did: what the camera saw of what it named, and what it never looked at."""
