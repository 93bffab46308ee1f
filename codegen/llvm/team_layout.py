"""A team in memory: where its members keep what they tell each other, in bytes.

Two cache lines for everything that another thread writes, as lines are fetched in pairs: how the
team is called, what it is to do, how much of that is left, then a record for each thread.  A word
that threads wait for is 32 bits, followed by the number of those that sleep and by how often one
went to sleep.
"""

from __future__ import annotations

from typing import Final

LINE_BYTES: Final = 128

# of a word that threads wait for: the epoch, and the chunks that are left
SLEEPERS: Final = 4
TIMES_SLEPT: Final = 8

# of the team; its first word is the epoch, which grows with every region
THREADS: Final = 12
USERS: Final = 16  # who may still look at this memory
STARTED: Final = 20
STOP: Final = 24
FUNCTION: Final = LINE_BYTES
ARGUMENTS: Final = FUNCTION + 8
FLUSH: Final = ARGUMENTS + 8  # whether denormal numbers become 0
LEFT: Final = 2 * LINE_BYTES  # chunks that are not finished: a word
RECORDS: Final = 3 * LINE_BYTES

# of a thread's record; first its range of chunks: next in the upper half, end in the lower
TEAM: Final = 8
NUMBER: Final = 16
SYSTEM_ID: Final = 24
STATE: Final = 28  # of a worker: 1: it keeps denormal numbers, 2: they become 0, 0: not known
