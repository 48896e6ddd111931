"""What is handed to whoever serves: adapters, router, launch files, cards, and a manifest of it all."""
