"""How like its target an environment is: tools, shapes, errors, order of calls, lengths, and all at once."""

from trace_assets.synthesis.audit.fidelity import answers, classifier, lengths, schema, sequences

CHECKS = (*schema.CHECKS, *answers.CHECKS, *sequences.CHECKS, *lengths.CHECKS, *classifier.CHECKS)
