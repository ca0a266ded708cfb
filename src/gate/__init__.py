"""The gate: whose words a message holds, and what of them may be kept; pure functions."""
