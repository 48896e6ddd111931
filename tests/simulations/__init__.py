"""Simulated studies with known deficits: does the diagnosis hold what it promises?"""
