"""Small programs that measure what the machine can do: arithmetic peak and bandwidth."""
