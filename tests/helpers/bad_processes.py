"""A file of somebody whose processes fail: one raises, two never rest, one of these is hungry."""

BAD = """
from tidings.core import Accept, Broadcast, MessageId, Packet, Process, Receive, Send

class Word(Packet, frozen=True, tag="word"):
    number: int

class Raising(Process):
    def step(self, event):
        match event:
            case Broadcast((text,)):
                return [Accept((MessageId(self.me, 1),)), Send(self.others, Word(1))]
            case Receive():
                raise ValueError("no\\nidea")
        return []

class Endless(Process):
    def step(self, event):
        match event:
            case Broadcast((text,)):
                return [Accept((MessageId(self.me, 1),)), Send(self.others, Word(1))]
            case Receive(sender, word):
                return [Send((sender,), word)]
        return []

class Hungry(Process):
    def step(self, event):
        match event:
            case Broadcast((text,)):
                self.eaten = []
                return [Accept((MessageId(self.me, 1),)), Send((self.me,), Word(1))]
            case Receive(sender, word):
                self.eaten.append(bytearray(10_000_000))
                return [Send((sender,), word)]
        return []
"""
