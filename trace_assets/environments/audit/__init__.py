"""The audit: named checks, scripted attackers, and a versioned policy that makes one verdict of them."""
