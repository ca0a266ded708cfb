"""The queues of jobs; each has places of its own in the workers.

The queue of an update is chosen where it is stored (``INSERT_UPDATES``).
"""

TURNS_QUEUE = "turns"
COMMANDS_QUEUE = "commands"  # commands and buttons, which wait for Telegram and never for a model
BESIDE_QUEUE = "beside"  # turns of people who want something in several chats at once
CONTROL_QUEUE = "control"  # what cuts in
HOUSEKEEPING_QUEUE = "housekeeping"
MEMORY_QUEUE = "memory"  # indexing and embedding, for everybody together
DIGEST_QUEUE = "digests"  # of one conversation; it waits for models, so nothing waits behind it
QUARANTINE_QUEUE = "quarantine"  # of suspects, which run alone before the others open
REMINDERS_QUEUE = "reminders"  # due within minutes; they wait for Telegram alone
