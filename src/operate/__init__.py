"""Tools of the operator: doctor, backup, evaluation, housekeeping."""
