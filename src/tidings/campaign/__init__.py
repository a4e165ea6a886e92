"""Thousands of runs: every algorithm in groups of every size, under every load and every fault.

Read ``plan`` (the file that says what is run), ``cells`` (the grid it stands for, and how it is
dealt out), ``runs`` (what a worker does), ``conduct`` (the stages of a campaign, any of which may
be done already), ``tables`` and ``statistics`` (the numbers), ``baseline`` (what changed since),
``counterexamples`` and ``page`` (what is shown). docs/campaign.md is for those who use it.
"""
