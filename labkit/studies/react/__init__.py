"""The study of the ReAct loop: what history and thoughts are good for.

`python -m labkit run react --profile full` makes its data.
"""

from labkit.studies.react.arms import arms
from labkit.studies.react.claims import CLAIMS
from labkit.studies.react.figures import FIGURES
from labkit.studies.react.run import cost, run
from labkit.study import Study

STUDY = Study(
    name="react",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 5},
    run=run,
    cost=cost,
)

__all__ = ["CLAIMS", "FIGURES", "STUDY"]
