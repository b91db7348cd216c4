"""What of today's training programs works: one small program for each kind, really trained, bits compared.

``python -m campaigns.conformance --page ../../docs/conformance.md`` writes the column of the torch at hand.
:mod:`.kinds` has the programs, :mod:`.training` trains one, :mod:`.outcome` says what came of it in a process
that may die, :mod:`.page` puts that into the table.
"""
