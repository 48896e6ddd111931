"""Whether training in an environment will teach anything, and whether that is worth having on the target."""
