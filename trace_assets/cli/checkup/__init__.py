"""What `trace doctor` looks at, one module a part of the machine."""
