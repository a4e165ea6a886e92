"""The numbers of all states met so far, in memory that all workers share.

An open table of 64-bit words; 0 is a free place. Nobody takes a lock. Two workers may claim the
same state at the same instant, or one may overwrite what the other has just written: then a state
is looked at twice, which costs a little time and loses nothing.
"""

import mmap

MOST_SLOTS = 2**28
"""Two gigabytes, of which only what is used takes memory."""
FIRST_SLOTS = 2**18
FULLEST = 0.6


class Seen:
    def __init__(self, slots: int = FIRST_SLOTS) -> None:
        self._memory = mmap.mmap(-1, 8 * MOST_SLOTS)
        self._words = memoryview(self._memory).cast("Q")
        self.slots = slots

    def add(self, number: int) -> bool:
        """Whether the number is new; from now on it is not."""
        words, mask = self._words, self.slots - 1
        place = number & mask
        while (word := words[place]) != number:
            if word == 0:
                words[place] = number
                return True
            place = (place + 1) & mask
        return False

    def room(self) -> int:
        """How many numbers may be in it before it becomes slow."""
        return int(self.slots * FULLEST)

    def grow(self) -> bool:
        """Four times the places, while nobody else adds anything; False if there can be no more."""
        if self.slots == MOST_SLOTS:
            return False
        kept = [word for word in self._words[: self.slots] if word]
        self._words[: self.slots] = memoryview(bytes(8 * self.slots)).cast("Q")
        self.slots = min(4 * self.slots, MOST_SLOTS)
        for word in kept:
            self.add(word)
        return True

    def close(self) -> None:
        self._words.release()
        self._memory.close()
