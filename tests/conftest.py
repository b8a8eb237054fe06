"""One hypothesis profile for all tests: the same examples on every run, as many as the time allows."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "oneword",
    max_examples=25,
    deadline=None,
    derandomize=True,
    # The conformance suite is inherited on purpose: one test, many classes.
    suppress_health_check=[HealthCheck.differing_executors],
)
settings.load_profile("oneword")
