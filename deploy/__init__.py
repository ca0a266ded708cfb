"""What stands around the program: its packages, and files for systemd and nginx."""
