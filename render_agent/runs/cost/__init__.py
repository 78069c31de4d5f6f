"""Tokens, requests and US dollars: upper bounds before a run, the cost of its turns, and the limit on it."""
