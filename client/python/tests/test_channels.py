"""The channel layer, to the specification of Django Channels; with Channels itself where that is installed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import unittest

import pgwake
from pgwake import _message

from .support import eventually, host

try:
    import psycopg  # noqa: F401

    from pgwake.channels import ChannelFull, PgwakeChannelLayer
except ImportError:
    print("skipped: python3-psycopg is not installed -- the channel layer", file=sys.stderr)
    raise unittest.SkipTest("python3-psycopg is not installed") from None

try:
    import channels.layers
except ImportError:
    channels = None  # type: ignore[assignment]


class Layer(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.host = host("--allow", f"uid:{os.getuid()} *")
        cls.addClassCleanup(cls.host.close)

    def layer(self, **more) -> PgwakeChannelLayer:
        layer = PgwakeChannelLayer(**self.host.options(), **more)
        self.addAsyncCleanup(layer.flush)
        return layer

    async def message(self, layer: PgwakeChannelLayer, channel: str) -> dict:
        return await asyncio.wait_for(layer.receive(channel), 60)

    async def nothing(self, layer: PgwakeChannelLayer, channel: str) -> None:
        """What is sent last arrives first: nothing else waits."""
        await layer.send(channel, {"type": "last"})
        self.assertEqual(await self.message(layer, channel), {"type": "last"})

    async def test_send_and_receive(self) -> None:
        layer = self.layer()
        channel = await layer.new_channel()
        self.assertTrue(channel.startswith("specific."))
        first = {
            "type": "x",
            "text": "caf\u00e9 \U0001f418 \0 \ud800",
            "bytes": b"\x00\xff",
            "list": [1, 2.5, None, True, {"a": b""}],
            "pgwake": {"pgwake": "AAAA"},
        }
        await layer.send(channel, first)
        await layer.send(channel, {"type": "y"})
        self.assertEqual(await self.message(layer, channel), first)
        self.assertEqual(await self.message(layer, channel), {"type": "y"})

    async def test_a_channel_of_another_process(self) -> None:
        """Also of one with other objects: all that they share is the database."""
        here, there = self.layer(), self.layer()
        channel = await there.new_channel("specific.x")
        other = await there.new_channel()
        await here.send(channel, {"type": "x"})
        await here.send(other, {"type": "y"})
        self.assertEqual(await self.message(there, other), {"type": "y"})
        self.assertEqual(await self.message(there, channel), {"type": "x"})

    async def test_a_named_channel(self) -> None:
        layer = self.layer()
        waiting = asyncio.ensure_future(layer.receive("thumbnails"))
        while "asgi.c.thumbnails" not in layer._inbox()._listener.channels:
            await asyncio.sleep(0.01)
        await layer.send("thumbnails", {"type": "x"})
        self.assertEqual(await asyncio.wait_for(waiting, 60), {"type": "x"})

    async def test_many_receivers_of_one_channel(self) -> None:
        layer = self.layer()
        channel = await layer.new_channel()
        waiting = [asyncio.ensure_future(layer.receive(channel)) for _ in range(5)]
        gone = asyncio.ensure_future(layer.receive(channel))
        await asyncio.sleep(0)
        gone.cancel()
        for i in range(5):
            await layer.send(channel, {"n": i})
        got = await asyncio.wait_for(asyncio.gather(*waiting), 60)
        self.assertEqual(sorted(m["n"] for m in got), [0, 1, 2, 3, 4])

    async def test_groups(self) -> None:
        here, there = self.layer(), self.layer()
        a, b, c = await here.new_channel(), await here.new_channel(), await there.new_channel()
        for layer, channel in ((here, a), (here, b), (there, c)):
            await layer.group_add("chat", channel)
            await layer.group_add("chat", channel)
        await here.group_discard("chat", b)
        await here.group_send("chat", {"type": "x"})
        self.assertEqual(await self.message(here, a), {"type": "x"})
        self.assertEqual(await self.message(there, c), {"type": "x"})
        await self.nothing(here, a)
        await self.nothing(here, b)
        for layer, channel in ((here, a), (here, a), (there, c)):
            await layer.group_discard("chat", channel)
        await here.group_discard("nobody", a)
        await here.group_send("chat", {"type": "y"})
        await self.nothing(here, a)
        self.assertNotIn("asgi.g.chat", here._inbox()._listener.channels)
        with self.assertRaisesRegex(pgwake.Invalid, "another process"):
            await here.group_add("chat", c)

    async def test_a_group_comes_and_goes(self) -> None:
        layer = self.layer()
        channel = await layer.new_channel()
        for i in range(20):
            await layer.group_add("chat", channel)
            await layer.group_send("chat", {"n": i})
            self.assertEqual(await self.message(layer, channel), {"n": i})
            await layer.group_discard("chat", channel)

    async def test_names(self) -> None:
        """Of up to 99 characters, which is more than PostgreSQL has."""
        layer = self.layer()
        for group in ("g" * 99, "g" * 98, "g" * 49):
            channel = await layer.new_channel("p" * 45)
            await layer.group_add(group, channel)
            await layer.group_send(group, {"to": group})
            self.assertEqual(await self.message(layer, channel), {"to": group})
        self.assertNotEqual(layer.name_of_group("x" * 90), layer.name_of_channel("x" * 90))
        for bad in ("a b", "a" * 100, "caf\u00e9", "", "a!b!c", 7, None, "a\n"):
            with self.assertRaises(TypeError):
                await layer.send(bad, {})
            with self.assertRaises(TypeError):
                await layer.group_send(bad, {})
            with self.assertRaises(TypeError):
                await layer.receive(bad)
        with self.assertRaises(TypeError):
            await layer.group_send("a!b", {})
        with self.assertRaises(TypeError):
            await layer.send("a", "text")

    async def test_capacity(self) -> None:
        layer, other = self.layer(capacity=3, channel_capacity={"big.*": 5}), self.layer()
        small, big = await layer.new_channel(), await layer.new_channel("big")
        for channel, most in ((small, 3), (big, 5)):
            for i in range(most + 2):
                await other.send(channel, {"n": i})
            last = await layer.new_channel()
            await other.send(last, {})
            await self.message(layer, last)
            with self.assertRaises(ChannelFull):
                await layer.send(channel, {"n": "no"})
            for i in range(most):
                self.assertEqual(await self.message(layer, channel), {"n": i})
            await self.nothing(layer, channel)

    async def test_expiry(self) -> None:
        layer = self.layer(expiry=0.2, group_expiry=0.2)
        old, channel = await layer.new_channel(), await layer.new_channel()
        await layer.group_add("chat", channel)
        await layer.send(old, {"n": 1})
        await layer.send(channel, {"n": 2})
        until = time.monotonic() + 60
        while layer._inbox()._boxes and time.monotonic() < until:
            await asyncio.sleep(0.05)
            await layer.group_send("chat", {"n": 3})  # a member no more after a while
            layer._inbox()._sweep()
        self.assertEqual(layer._inbox()._boxes, {})

    async def test_too_large(self) -> None:
        layer = self.layer()
        channel = await layer.new_channel()
        with self.assertRaisesRegex(pgwake.Invalid, "7999"):
            await layer.send(channel, {"text": "x" * 8000})
        room = 7999 - len(_message.to_text(channel, {"text": ""}))
        await layer.send(channel, {"text": "x" * room})
        self.assertEqual(len((await self.message(layer, channel))["text"]), room)

    async def test_flush(self) -> None:
        layer = self.layer()
        channel = await layer.new_channel()
        await layer.group_add("chat", channel)
        await layer.send(channel, {"n": 1})
        await layer.flush()
        await layer.flush()
        again = await layer.new_channel()
        await layer.group_send("chat", {"n": 2})
        await self.nothing(layer, again)

    async def test_what_is_no_message(self) -> None:
        """Whoever may NOTIFY may send anything: it is logged, and the layer goes on."""
        layer = self.layer()
        channel = await layer.new_channel()
        await layer.group_add("chat", channel)
        with self.assertLogs("pgwake.channels", "ERROR") as log:
            for text in ("nonsense", "[]", '["",7]', '["",{"a":{"pgwake":"="}}]', '["x",{"pgwake":7}]', "[" * 5000):
                self.host.notify("asgi.g.chat", text)
            self.host.notify("asgi.g.chat")
            self.host.notify("asgi.g.chat", '["other",{}]')
            await layer.group_send("chat", {"type": "x"})
            self.assertEqual(await self.message(layer, channel), {"type": "x"})
        self.assertEqual(len(log.records), 6)

    async def test_publishing_again_after_its_session_has_ended(self) -> None:
        layer = self.layer()
        channel = await layer.new_channel()
        await layer.send(channel, {"n": 1})
        session = "backend_type = 'client backend' AND datname = current_database() AND " \
            "pid <> pg_backend_pid() AND query LIKE '%pg_notify%'"
        # Those of the tests before this one are gone once the server has noticed.
        one = f"SELECT count(*) FROM pg_stat_activity WHERE {session}"
        self.assertTrue(eventually(lambda: self.host.sql(one) == ["1"]))
        ended = self.host.sql(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {session}")
        self.assertEqual(ended, ["t"])
        await layer.send(channel, {"n": 2})
        self.assertEqual([(await self.message(layer, channel))["n"] for _ in range(2)], [1, 2])

    async def test_the_hub_is_killed(self) -> None:
        own = host("--allow", f"uid:{os.getuid()} *")
        self.addCleanup(own.close)
        layer = PgwakeChannelLayer(**own.options())
        self.addAsyncCleanup(layer.flush)
        channel = await layer.new_channel()
        with self.assertLogs("pgwake.channels", "WARNING") as log:
            own.kill()
            for i in range(600):
                await layer.send(channel, {"n": i})
                try:
                    await asyncio.wait_for(layer.receive(channel), 0.1)
                    break
                except asyncio.TimeoutError:
                    continue
            else:
                self.fail("deaf")
            while not log.records:
                await asyncio.sleep(0.01)
        self.assertIn("hub_lost", log.output[0])


class Loops(unittest.TestCase):
    def test_one_handle_for_each_loop(self) -> None:
        """As async_to_sync makes them: each lives for one call, and only receiving opens a handle."""
        here = host("--allow", f"uid:{os.getuid()} *")
        self.addCleanup(here.close)
        layer = PgwakeChannelLayer(**here.options())

        async def to_itself() -> dict:
            channel = await layer.new_channel()
            await layer.group_add("chat", channel)
            await layer.group_send("chat", {"n": 1})
            return await asyncio.wait_for(layer.receive(channel), 60)

        for _ in range(3):
            asyncio.run(layer.send("nobody", {}))
            self.assertEqual(asyncio.run(to_itself()), {"n": 1})
            self.assertEqual(len(layer._inboxes), 1)
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_notify%' AND " \
            "pid <> pg_backend_pid() AND datname = current_database()"
        self.assertEqual(here.sql(sessions), ["1"])
        asyncio.run(layer.flush())
        for inbox in layer._inboxes.values():
            inbox.close()

    def test_the_message_format(self) -> None:
        for value in (b"", {"pgwake": None}, {"pgwake": {"pgwake": 1}}, [{"pgwake": "x"}], {"a": [b"x"]}, "x", 1.5):
            self.assertEqual(_message.from_text(_message.to_text("c", {"v": value})), ("c", {"v": value}))

    def test_the_database_of_django(self) -> None:
        if channels is None:
            print("\nskipped: python3-django-channels is not installed -- Django's settings", file=sys.stderr)
            self.skipTest("python3-django-channels is not installed")
        from django.conf import settings

        here = host("--allow", f"uid:{os.getuid()} *")
        self.addCleanup(here.close)
        words = dict(word.split("=", 1) for word in here.conninfo.split())
        with self.assertRaisesRegex(pgwake.Error, "no database"):
            PgwakeChannelLayer()
        given = here.options()
        del given["database"]
        settings.configure(
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "NAME": words["dbname"],
                    "USER": words["user"],
                    "HOST": words["host"],
                    "OPTIONS": {"isolation_level": 1},
                }
            },
            CHANNEL_LAYERS={"default": {"BACKEND": "pgwake.channels.PgwakeChannelLayer", "CONFIG": given}},
        )
        layer = channels.layers.get_channel_layer()
        self.assertIs(ChannelFull, channels.exceptions.ChannelFull)

        async def to_itself() -> dict:
            channel = await layer.new_channel()
            await layer.send(channel, {"n": 1})
            try:
                return await asyncio.wait_for(layer.receive(channel), 60)
            finally:
                await layer.flush()

        self.assertEqual(asyncio.run(to_itself()), {"n": 1})


if __name__ == "__main__":
    unittest.main()
