"""Attacks on semisure: random hostile inputs, each repeated by its number.

A campaign is a module with a function ``attack(rng, folder)``, which makes one hostile
call and returns a word for the outcome. Findings are wrong results, warnings, crashes,
a minute without an answer, and errors that are not semisure's own.

    make fuzz SECONDS=60                               # all campaigns
    PYTHONPATH=tests python -m fuzz --case files:123   # one case again
"""
