"""The study of early experience: what is learned from the outcomes of one's own actions, without a reward.

`python -m labkit run early_experience --profile full` makes its data.
"""

from labkit.studies.early_experience.arms import arms
from labkit.studies.early_experience.claims import CLAIMS
from labkit.studies.early_experience.figures import FIGURES
from labkit.studies.early_experience.run import cost, run
from labkit.study import Study

STUDY = Study(
    name="early_experience",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 5},
    run=run,
    cost=cost,
)

__all__ = ["CLAIMS", "FIGURES", "STUDY"]
