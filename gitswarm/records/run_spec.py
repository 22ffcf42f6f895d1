"""What a run was asked for and what was configured then: the rules of its budget, landing, review and proof."""

from __future__ import annotations

from math import inf
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from gitswarm.records.budget import BudgetLimits, seconds
from gitswarm.records.execution import BRANCH_PREFIX
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import AtLeastOne, Record, form, short_form
from gitswarm.records.routing import HumanPolicy, RoutingMode
from gitswarm.records.safety import PolicyRules, SecretRules


class EngineChoice(Record):
    """Which engine executes, in which mode, with which model (None: the station's or the mode's own)."""

    engine: str
    mode: str
    provider: str
    model: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Engine and mode: what one transport is known by."""
        return self.engine, self.mode


class TestSuite(Record):
    """One of several test commands of a project. `paths`: what it is about, as in a .gitignore; none: everything."""

    __test__: ClassVar[bool] = False  # pytest takes every Test* that a test module imports for a test

    run: str
    paths: tuple[str, ...] = ()


LandStrategy = Literal["squash", "merge", "evidence"]


class DeployRules(Record):
    """How approved code gets home. `target`: a local branch; None: the one that the run was started on. `ci_timeout`:
    seconds that the checks of the landed commit are waited for."""

    target: str | None = None
    strategy: LandStrategy = "squash"
    push: bool = False
    require_signature: bool = False
    ci_timeout: AtLeastOne = 600


class ReviewRules(Record):
    """Where a change is shown for review. `forge`: the command line that speaks to it; none: nowhere, nothing leaves
    this machine. `remote`: git's name of the repository that the branch is pushed to."""

    forge: Literal["none", "gh", "glab"] = "none"
    remote: Annotated[str, form("[A-Za-z0-9_][A-Za-z0-9._/-]*", "'{given}' is no name of a remote")] = "origin"


def _seconds(value: object) -> object:
    """`4h` for people, seconds where it is stored."""
    if not isinstance(value, str):
        return value
    try:
        return seconds(value)
    except ValueError as error:
        raise ValueError(f"'{value}' is not a duration: 90s, 45m, 4h, 1h30m") from error


class ProofRules(Record):
    """`max_time`: seconds, or as `45m`, that the tests which git-swarm runs by itself take at most, together, for one
    test step."""

    max_time: Annotated[AtLeastOne, short_form(_seconds, {"type": "string"})] = 1800


_Amount = Annotated[float, Meta(gt=0)]


class BudgetRules(Record):
    """Limits of a run, a flow, or one execution of a step; None: no limit. `max_time`: seconds, or as `45m` and
    `4h`, in which something is executed; a run that waits for a person takes none."""

    max_cost_usd: _Amount | None = None
    max_tokens: Annotated[int, Meta(gt=0)] | None = None
    max_time: Annotated[_Amount | None, short_form(_seconds, {"type": "string"})] = None

    def __post_init__(self) -> None:
        if inf in (self.max_cost_usd, self.max_time):
            raise ValueError("a limit that is infinite is none: leave it out")

    @property
    def limits(self) -> BudgetLimits:
        return BudgetLimits(self.max_cost_usd, self.max_tokens, self.max_time)

    @classmethod
    def of(cls, limits: BudgetLimits) -> BudgetRules:
        return cls(max_cost_usd=limits.cost_usd, max_tokens=limits.tokens, max_time=limits.time_s)

    @classmethod
    def smaller(cls, key: str, one: object, other: object) -> object:
        """The smaller of two values for a key; one that is no limit loses.

        :raises MistakesError: one is no value for it.
        """
        both = [getattr(cls.from_plain({key: each}), key) for each in (one, other)]
        return min((each for each in both if each is not None), default=None)


class FrozenSettings(Record):
    """What configuration said when the run was created; edits after that change nothing in it.

    `model` None: the model policy decides, and with `economy` it takes its cheapest tier. `engines`: by short name,
    what each of the run's engines has to keep to.
    """

    default_engine: EngineChoice
    model: str | None = None
    economy: bool = False
    context: Literal["lean", "balanced", "heavy"] = "balanced"
    flow_engines: dict[str, EngineChoice] = {}
    step_engines: dict[str, EngineChoice] = {}
    commands: dict[str, str | None] = {}
    test_suites: dict[str, TestSuite] = {}
    command_timeout_s: int = 1800
    copy_patterns: tuple[str, ...] = ()
    setup: str | None = None
    setup_timeout_s: int = 600
    worktree_paths: tuple[str, ...] = ()
    navigator_timeout_s: float = 120.0
    engines: dict[str, dict[str, JsonValue]] = {}
    policy: PolicyRules = PolicyRules()
    secrets: SecretRules = SecretRules()
    deploy: DeployRules = DeployRules()
    review: ReviewRules = ReviewRules()
    proof: ProofRules = ProofRules()
    budget: BudgetRules = BudgetRules()

    @property
    def configured_commands(self) -> dict[str, str]:
        """The project's commands that somebody wrote down, by name."""
        return {name: line for name, line in self.commands.items() if line is not None}


def _of_an_earlier_version(given: object) -> object:
    """It wrote what its one engine has to keep to beside everything else."""
    if not isinstance(given, dict):
        return given
    known = FrozenSettings.__struct_fields__
    engines = {name: each for name, each in given.items() if name not in known and isinstance(each, dict)}
    ours = {name: section for name, section in given.items() if name not in engines}
    return {**ours, "engines": engines} if engines else given


class RunSpec(Record):
    """`spec.json`: what was asked for. Holds no absolute path, so that a run can move machines."""

    format: int = 1
    run_id: str
    created_at: str
    flows: tuple[str, ...]
    base: str
    base_ref: str | None
    task: str
    routing_mode: RoutingMode
    human: HumanPolicy = HumanPolicy.SUPERVISED
    allow_stub: bool
    scripted: bool
    initiator: str
    settings: Annotated[FrozenSettings, short_form(_of_an_earlier_version)]

    @property
    def branch(self) -> str:
        return BRANCH_PREFIX + self.run_id
