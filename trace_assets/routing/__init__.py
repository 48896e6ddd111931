"""Which adapter a task goes to, decided on its first user message, and how good that decision is."""
