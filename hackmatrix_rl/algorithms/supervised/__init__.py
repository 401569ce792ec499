"""Learning from labelled examples, with deep supervision and halting that is learned."""

from ._config import SupervisedConfig as SupervisedConfig
from ._evaluation import Answers as Answers
from ._evaluation import EvaluateAnswers as EvaluateAnswers
from ._evaluation import answers as answers
from ._evaluation import evaluation_numbers as evaluation_numbers
from ._load import load_answers as load_answers
from ._loss import OUTPUT_LOSSES as OUTPUT_LOSSES
from ._network import AnswerNetwork as AnswerNetwork
from ._optimizer import adam_atan2 as adam_atan2
from ._puzzle import Puzzle as Puzzle
from ._schedules import Curriculum as Curriculum
from ._schedules import Halting as Halting
from ._supervised import Supervised as Supervised
from ._tasks import TASKS as TASKS
