"""Attacks on semisure: hostile inputs at random, each made again from its number.

A campaign is a module with one function, ``attack(rng, folder)``. It makes one hostile
call and says in a word what came of it. What it may meet is an error of semisure's own.
Any other exception, a warning, a crash, or ten seconds without an answer is a finding;
so is a result that is silently wrong, which it raises as :class:`fuzz.hostile.Wrong`.
A crash ends everything, and leaves the folder that is named after its case.

    make fuzz SECONDS=60                                # all campaigns
    PYTHONPATH=tests python -m fuzz --campaign files --case 123   # one case again
"""
