"""An OpenAI-compatible endpoint that sends each conversation to the adapter that a router chooses."""
