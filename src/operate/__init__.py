"""For whoever runs the bot: doctor, backup, evaluation, housekeeping."""
