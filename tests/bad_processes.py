"""A file of somebody whose processes fail: one raises, the other never comes to rest."""

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
"""
