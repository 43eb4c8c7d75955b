"""What holds for every test: Hypothesis looks for wrong answers, not for slow ones."""

from hypothesis import settings

# A busy machine is no defect; what must stay quick is measured in benchmarks/, and a test that hangs runs into its
# timeout.
settings.register_profile("dreamd", deadline=None)
settings.load_profile("dreamd")
