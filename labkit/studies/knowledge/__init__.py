"""What fine-tuning on facts does to a model that knows some of them and not others, on controlled twins.

`python -m labkit run knowledge --profile full` makes its data.
"""

from labkit.studies.knowledge.arms import arms
from labkit.studies.knowledge.claims import CLAIMS
from labkit.studies.knowledge.figures import FIGURES
from labkit.studies.knowledge.run import cost, run
from labkit.study import Study

STUDY = Study(
    name="knowledge",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 6},
    run=run,
    cost=cost,
)

__all__ = ["CLAIMS", "FIGURES", "STUDY"]
