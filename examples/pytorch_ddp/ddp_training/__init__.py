"""The parts of the training: settings, data, models, ranks, records and checkpoints."""
