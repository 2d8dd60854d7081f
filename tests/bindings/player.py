"""Plays one case of cases.json through one driver. What the steps mean: README.md."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable, Iterable

from driver_process import PATIENCE, Driver, Failure
from publishing import Publisher, sql_text
from rig import Host, eventually, quoted

NOWHERE = "/nonexistent/pgwake.sock"


def hub_arguments(said: Iterable[str]) -> tuple[str, ...]:
    return tuple(argument.format(uid=os.getuid()) for argument in said)


def bytes_of(text: Any) -> bytes:
    """A text of cases.json."""
    if isinstance(text, str):
        return text.encode()
    if "repeat" in text:
        return str(text["repeat"]).encode() * int(text["times"])
    return bytes(range(text["from"], text["to"] + 1))


def channels_of(said: Any) -> list[bytes]:
    if isinstance(said, dict) and "many" in said:
        return [f"{said['many']}{i}".encode() for i in range(said["count"])]
    return [bytes_of(one) for one in (said if isinstance(said, list) else [said])]


class Player:
    def __init__(self, host: Host, start: Callable[[dict[str, str]], Driver], scratch: str) -> None:
        self._host = host
        self._start = start
        self._scratch = scratch
        self._driver: Driver | None = None
        self._publisher: Publisher | None = None

    @property
    def _its(self) -> Driver:
        assert self._driver is not None
        return self._driver

    def _quiet(self) -> bool:
        """The hub alone listens, and a driver that comes now is told nothing of its start later on."""
        return self._host.census(self._own) == 0 and self._host.census("pgwaked@%") == 1 and self._host.healthy()

    def play(self, case: dict[str, Any]) -> None:
        """Raises Failure, which says at which step."""
        if not eventually(self._quiet, PATIENCE):
            raise Failure("before the first step: the hub does not listen, or somebody else still does")
        self._driver = self._start(case.get("environment", {}))
        try:
            self._steps(case["steps"])
            code = self._driver.end()
            if code != 0:
                raise Failure(f"the driver's exit code is {code}")
        finally:
            if self._publisher is not None:
                self._publisher.stop()
            self._driver.kill()

    def _steps(self, steps: list[dict[str, Any]]) -> None:
        for number, step in enumerate(steps, 1):
            try:
                getattr(self, "_do_" + next(iter(step)))(step)
            except Failure as failure:
                raise Failure(f"step {number} {step}: {failure}") from None

    @property
    def _own(self) -> str:
        return "own-" + self._host.name

    # Requests to the driver

    def _outcome(self, step: dict[str, Any], answer: dict[str, Any]) -> Any:
        """What a call answered, which is an error where the step says so."""
        got = {key: answer.get(key) for key in ("error", "code", "channel") if key in answer}
        wanted = {key: step[key] for key in ("error", "code") if key in step}
        if "refused" in step:
            wanted["channel"] = bytes_of(step["refused"])
        if {key: got.get(key) for key in wanted} != wanted or bool(got) != bool(wanted):
            raise Failure(f"expected {wanted or 'success'}, got {answer}")
        if "says" in step and step["says"] not in answer["text"]:
            raise Failure(f"expected an error that says {step['says']!r}, got {answer['text']!r}")
        return answer.get("is")

    def _handle(self, step: dict[str, Any]) -> str:
        return str(step.get("on", "a"))

    def _do_open(self, step: dict[str, Any]) -> None:
        values = self._host.options(**step.get("options", {}))
        places = {"nowhere": NOWHERE, "scratch": self._scratch, "postgres": self._host.cluster.conninfo("postgres")}
        words = [f"{key}={value.format_map(places)}" for key, value in values.items()]
        self._outcome(step, self._its.ask("open", step["open"], *words))

    def _do_subscribe(self, step: dict[str, Any]) -> None:
        timeout = str(step.get("timeout", PATIENCE * 1000))
        channels = channels_of(step["subscribe"])
        self._outcome(step, self._its.ask("subscribe", self._handle(step), timeout, *channels))

    def _do_unsubscribe(self, step: dict[str, Any]) -> None:
        channels = channels_of(step["unsubscribe"])
        self._outcome(step, self._its.ask("unsubscribe", self._handle(step), *channels))

    def _about_handle(self, step: dict[str, Any]) -> None:
        verb, name = next(iter(step.items()))
        self._outcome(step, self._its.ask(verb, name))

    _do_close = _do_shutdown = _do_thread = _do_join = _do_reopen = _about_handle

    def _do_readable(self, step: dict[str, Any]) -> None:
        wait = PATIENCE * 1000 if step["readable"] else 100
        got = self._outcome(step, self._its.ask("readable", self._handle(step), str(wait)))
        if got != step["readable"]:
            raise Failure(f"the descriptor is {'' if got else 'not '}readable")

    def _do_fork(self, step: dict[str, Any]) -> None:
        self._outcome(step, self._its.ask("fork"))

    def _do_exit(self, step: dict[str, Any]) -> None:
        """Of the child; the parent goes on."""
        answer = self._its.ask("exit")
        if answer != {"is": "ended", "status": 0}:
            raise Failure(f"expected the end of the child, got {answer}")

    def _do_signals(self, step: dict[str, Any]) -> None:
        self._outcome(step, self._its.ask("signals"))

    # Events

    def _next(self, step: dict[str, Any], timeout: float) -> Any:
        milliseconds = str(round(timeout * 1000))
        return self._outcome({}, self._its.ask("next", self._handle(step), milliseconds))

    def _wanted(self, said: dict[str, Any]) -> dict[str, Any]:
        wanted = {"kind": "wake", **said}
        if wanted["kind"] == "wake":
            wanted = {"gap": "", "payload": None, **wanted}
        for key in ("channel", "payload"):
            if wanted.get(key) is not None:
                wanted[key] = bytes_of(wanted[key])
        if wanted.get("by") == "notifier":
            wanted["by"] = int(self._host.sql("SELECT pg_backend_pid()")[0])
        return wanted

    def _differs(self, wanted: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
        return {key: got.get(key) for key, value in wanted.items() if got.get(key) != value}

    def _do_expect(self, step: dict[str, Any]) -> None:
        """These wakes and refusals, in this order and none between; states are passed over."""
        batch: list[dict[str, Any]] = []
        for said in step["expect"]:
            wanted = self._wanted(said)
            got = self._take(step, batch, PATIENCE)
            if got is None:
                raise Failure(f"expected {wanted}, and nothing came")
            different = self._differs(wanted, got)
            if different:
                raise Failure(f"expected {wanted}, got {different} in {got}")
        self._rest_is_states(batch)

    @staticmethod
    def _rest_is_states(batch: list[dict[str, Any]]) -> None:
        rest = [e for e in batch if e["kind"] != "state"]
        if rest:
            raise Failure(f"unexpected {rest}")

    def _take(self, step: dict[str, Any], batch: list[dict[str, Any]], patience: float) -> Any:
        """The next event that is no state, by single events, or by batches where the step says so."""
        until = time.monotonic() + patience
        while True:
            if batch:
                event = batch.pop(0)
            else:
                left = max(0.0, until - time.monotonic())
                if "batches" in step:
                    self._its.ask("readable", self._handle(step), str(round(left * 1000)))
                    batch += self._outcome({}, self._its.ask("read", self._handle(step), str(step["batches"])))
                    if not batch and time.monotonic() > until:
                        return None
                    continue
                event = self._next(step, left)
                if event is None:
                    return None
            if event["kind"] != "state":
                return event

    def _do_until(self, step: dict[str, Any]) -> None:
        """All events up to this one are passed over."""
        wanted = self._wanted(step["until"])
        deadline = time.monotonic() + PATIENCE
        seen: list[Any] = []
        while time.monotonic() < deadline:
            event = self._next(step, max(0.0, deadline - time.monotonic()))
            if event is None:
                break
            if not self._differs(wanted, event):
                return
            seen.append(event)
        raise Failure(f"expected {wanted} some time, got {seen[-5:]}")

    def _do_gaps(self, step: dict[str, Any]) -> None:
        """One gap of this cause on each of these channels, in any order, and nothing between."""
        missing = set(channels_of(step["channels"]))
        wanted = {"kind": "wake", "gap": step["gaps"], "payload": None}
        wanted.update({key: step[key] for key in ("source",) if key in step})
        while missing:
            got = self._take(step, [], PATIENCE)
            if got is None:
                raise Failure(f"no gap came on {missing}")
            if self._differs(wanted, got) or got["channel"] not in missing:
                raise Failure(f"expected {wanted} on one of {missing}, got {got}")
            missing.discard(got["channel"])

    def _do_nothing(self, step: dict[str, Any]) -> None:
        """A wait that nothing ends; states are passed over."""
        begun = time.monotonic()
        event = self._take(step, [], step["nothing"] / 1000)
        if event is not None:
            raise Failure(f"expected nothing, got {event}")
        if time.monotonic() - begun < step["nothing"] / 1000 * 0.9:
            raise Failure("it did not wait")

    def _do_skip(self, step: dict[str, Any]) -> None:
        """Takes what is there."""
        while self._next({"on": step["skip"]}, 0) is not None:
            pass

    def _do_numbers(self, step: dict[str, Any]) -> None:
        """From 1 to the last that was published or is named, once and in order, on each channel, and no gap."""
        channels = channels_of(step["numbers"])
        last = step.get("to") or self._stopped()
        at = dict.fromkeys(channels, 0)
        batch: list[dict[str, Any]] = []
        while any(n < last for n in at.values()):
            e = self._take(step, batch, PATIENCE)
            if e is None:
                raise Failure(f"expected numbers up to {last}, got {at}, and nothing came")
            number = (e["payload"] or b"").rstrip(b".")
            expected = str(at.get(e["channel"], 0) + 1).encode()
            if e["gap"] or number != expected:
                raise Failure(f"expected {expected!r} of {last}, got {e}")
            at[e["channel"]] += 1
        self._rest_is_states(batch)

    def _stopped(self) -> int:
        assert self._publisher is not None
        publisher, self._publisher = self._publisher, None
        return publisher.stop()

    def _do_begin(self, step: dict[str, Any]) -> None:
        """Waits for the next event while the steps go on, up to `end`."""
        self._its.send("next", step["begin"], str(PATIENCE * 1000))

    def _do_signal(self, step: dict[str, Any]) -> None:
        """While the driver waits: its handler is called now, not when the wait is over."""
        self._its.signal(step["signal"])
        answer = self._its.receive()
        if answer != {"signal": True}:
            raise Failure(f"expected the handler's line, got {answer}")

    def _do_end(self, step: dict[str, Any]) -> None:
        """The wait that `begin` began; states are passed over."""
        got = self._outcome({}, self._its.receive())
        while got and got["kind"] == "state":
            got = self._next(step, PATIENCE)
        different = self._differs(self._wanted(step["end"]), got or {})
        if different:
            raise Failure(f"expected {step['end']}, got {got}")

    # State

    def _do_state(self, step: dict[str, Any]) -> None:
        """Comes to be so."""
        got: dict[str, Any] = {}

        def so() -> bool:
            got.update(self._outcome(step, self._its.ask("state", self._handle(step))) or {})
            return "error" in step or all(self._fits(value, got[key]) for key, value in step["state"].items())

        if not eventually(so, PATIENCE):
            raise Failure(f"got {got}")

    @staticmethod
    def _fits(wanted: Any, got: Any) -> bool:
        return bool(got >= wanted["least"]) if isinstance(wanted, dict) else bool(got == wanted)

    def _do_census(self, step: dict[str, Any]) -> None:
        like = {"own": self._own, "hub": "pgwaked@%"}
        got: dict[str, int] = {}

        def so() -> bool:
            got.update({who: self._host.census(like[who]) for who in step["census"]})
            return got == step["census"]

        if not eventually(so, PATIENCE):
            raise Failure(f"got {got}")

    # Publishing

    def _do_notify(self, step: dict[str, Any]) -> None:
        """Each channel in a transaction of its own; `from` names another session."""
        payload = bytes_of(step.get("payload", ""))
        sql = self._host.session() if step.get("by") == "another" else self._host.sql
        for channel in channels_of(step["notify"]) * step.get("times", 1):
            sql(f"SELECT FROM pg_notify({sql_text(channel)}, {sql_text(payload)})")
        if sql is not self._host.sql:
            sql.close()

    def _do_burst(self, step: dict[str, Any]) -> None:
        """The numbers from 1 on, on each channel, in one transaction."""
        calls = ", ".join(
            f"pg_notify({sql_text(c)}, n || repeat('.', {step.get('pad', 0)}))" for c in channels_of(step["burst"])
        )
        self._host.sql(f"SELECT FROM (SELECT {calls} FROM generate_series(1, {step['count']}) n) AS calls")

    def _do_publish(self, step: dict[str, Any]) -> None:
        self._publisher = Publisher(self._host.session(), channels_of(step["publish"]))

    def _do_published(self, step: dict[str, Any]) -> None:
        """So many more have been published."""
        assert self._publisher is not None
        publisher, goal = self._publisher, self._publisher.last + step["published"]
        if not eventually(lambda: publisher.last >= goal, PATIENCE):
            raise Failure("the publisher hangs")

    # Hub and server

    def _do_hub(self, step: dict[str, Any]) -> None:
        what = step["hub"]
        if what == "freeze":
            self._host.signal(signal.SIGSTOP)
        elif what == "thaw":
            self._host.signal(signal.SIGCONT)
        elif what == "start":
            self._host.start(*(hub_arguments(step["arguments"]) if "arguments" in step else ()))
        else:
            getattr(self._host, what)()

    def _do_terminate(self, step: dict[str, Any]) -> None:
        like = self._own if step["terminate"] == "own" else "pgwaked@%"
        if not eventually(lambda: self._host.terminate(like) > 0, PATIENCE):
            raise Failure("there is no such session")

    def _do_server(self, step: dict[str, Any]) -> None:
        """Whether the database lets anybody in."""
        allow = "true" if step["server"] == "open" else "false"
        self._host.cluster.sql(
            f"UPDATE pg_database SET datallowconn = {allow} WHERE datname = {quoted(self._host.name)}"
        )

    def _do_repeat(self, step: dict[str, Any]) -> None:
        for _ in range(step["repeat"]):
            self._steps(step["steps"])


def restore(host: Host) -> None:
    """As a case found it."""
    host.cluster.sql(f"UPDATE pg_database SET datallowconn = true WHERE datname = {quoted(host.name)}")
    if host.alive() and not host.arguments:
        host.signal(signal.SIGCONT)
    else:
        if host.alive():
            host.kill()
        host.arguments = ()
        host.start()


def environment(more: dict[str, str], library: str) -> dict[str, str]:
    """A driver's: nothing in it steers pgwake but what the case says."""
    base = {key: value for key, value in os.environ.items() if not key.startswith("PG") or key == "PGWAKE_NODE"}
    return {**base, "LIBPGWAKE": library, **more}
