"""Interfaces of tasks, agents, learners, samplers and guides, and the records that they exchange.

Import them from here; each module holds one subject. Axis 0 is the seed everywhere: S seeds of one cell train in one
worker, in lock-step. `state(row)` and `load_state(row, state)` concern one seed row, so that a checkpoint belongs to a
run and packing may change on resume.
"""

from guidebench.harness.interfaces.agents import Actor as Actor
from guidebench.harness.interfaces.agents import Agent as Agent
from guidebench.harness.interfaces.agents import Context as Context
from guidebench.harness.interfaces.agents import Mode as Mode
from guidebench.harness.interfaces.agents import Place as Place
from guidebench.harness.interfaces.building import Build as Build
from guidebench.harness.interfaces.episodes import Episode as Episode
from guidebench.harness.interfaces.episodes import RunPhase as RunPhase
from guidebench.harness.interfaces.episodes import Transition as Transition
from guidebench.harness.interfaces.guides import Guide as Guide
from guidebench.harness.interfaces.guides import Rewarded as Rewarded
from guidebench.harness.interfaces.learning import Difference as Difference
from guidebench.harness.interfaces.learning import Learner as Learner
from guidebench.harness.interfaces.learning import Loss as Loss
from guidebench.harness.interfaces.learning import NStep as NStep
from guidebench.harness.interfaces.learning import Tensors as Tensors
from guidebench.harness.interfaces.learning import Update as Update
from guidebench.harness.interfaces.questions import ArraySpec as ArraySpec
from guidebench.harness.interfaces.questions import ChecksAnswers as ChecksAnswers
from guidebench.harness.interfaces.questions import Choice as Choice
from guidebench.harness.interfaces.questions import Choose as Choose
from guidebench.harness.interfaces.questions import ChoosesAnswers as ChoosesAnswers
from guidebench.harness.interfaces.questions import Dialogue as Dialogue
from guidebench.harness.interfaces.questions import Judge as Judge
from guidebench.harness.interfaces.questions import Question as Question
from guidebench.harness.interfaces.questions import ReadsPrompts as ReadsPrompts
from guidebench.harness.interfaces.questions import Unusable as Unusable
from guidebench.harness.interfaces.questions import WritesObjects as WritesObjects
from guidebench.harness.interfaces.replay import Batch as Batch
from guidebench.harness.interfaces.replay import Span as Span
from guidebench.harness.interfaces.replay import Store as Store
from guidebench.harness.interfaces.replay import TransitionColumn as TransitionColumn
from guidebench.harness.interfaces.samplers import Draw as Draw
from guidebench.harness.interfaces.samplers import Moment as Moment
from guidebench.harness.interfaces.samplers import Sampler as Sampler
from guidebench.harness.interfaces.spaces import Actions as Actions
from guidebench.harness.interfaces.spaces import Observations as Observations
from guidebench.harness.interfaces.tasks import Coordinates as Coordinates
from guidebench.harness.interfaces.tasks import Drawer as Drawer
from guidebench.harness.interfaces.tasks import Step as Step
from guidebench.harness.interfaces.tasks import StepWords as StepWords
from guidebench.harness.interfaces.tasks import Suite as Suite
from guidebench.harness.interfaces.tasks import Surroundings as Surroundings
from guidebench.harness.interfaces.tasks import Task as Task
from guidebench.harness.scores import SUCCESS as SUCCESS
from guidebench.harness.scores import Score as Score
from guidebench.harness.types import Array as Array
from guidebench.harness.types import Metrics as Metrics
from guidebench.harness.types import State as State
