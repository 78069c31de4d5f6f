"""Stress tests: does the answer depend on what is seen?"""
