"""The policy that a small model learns from: it says what views have shown, looks for the rest, answers."""
