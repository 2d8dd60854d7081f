"""procrastinate is woken through the hub; its queries go to the database as before.

    app = procrastinate.App(connector=HubConnector(
        conninfo="host=db.internal dbname=shop user=app",
        listen_conninfo="host=/run/pgwake/shop,db.internal port=5432,5432 dbname=shop user=app"))

Written from the sources of procrastinate 3; pgwake's tests do not run it. Jobs that were deferred while nobody listened
are found by the worker's polling (fetch_job_polling_interval), as without the hub.
"""

import asyncio
import logging

import procrastinate
import psycopg
from psycopg import sql

logger = logging.getLogger(__name__)


class HubConnector(procrastinate.PsycopgConnector):
    def __init__(self, *, listen_conninfo, **pool_arguments):
        super().__init__(**pool_arguments)
        self._listen_conninfo = listen_conninfo

    async def listen_notify(self, on_notification, channels):
        while True:
            try:
                await self._listen_once(on_notification, channels)
            except psycopg.OperationalError as error:
                # The hub told of a gap, was restarted, or is away; libpq tries the second host by itself.
                logger.warning("procrastinate listens again: %s", error)
                await asyncio.sleep(1)

    async def _listen_once(self, on_notification, channels):
        connection = await psycopg.AsyncConnection.connect(self._listen_conninfo, autocommit=True)
        async with connection:
            for channel in channels:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            async for notification in connection.notifies():
                await on_notification(channel=notification.channel, payload=notification.payload)
