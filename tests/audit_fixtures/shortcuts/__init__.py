"""Environments that pay for short cuts: each a sound one with the edit that lets one through."""
