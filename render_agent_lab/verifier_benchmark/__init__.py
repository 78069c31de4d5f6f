"""Verifiers measured side by side: do they choose better than chance, and what do they cost?"""
