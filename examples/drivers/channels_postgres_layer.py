"""channels_postgres is woken through the hub; its queries go to the database as before.

    CHANNEL_LAYERS = {"default": {
        "BACKEND": "shop.layers.HubChannelLayer",
        "CONFIG": {..., "LISTEN": {"host": "/run/pgwake/shop,db.internal", "port": "5432,5432"}}}}

Written from the sources of channels_postgres (2025); pgwake's tests do not run it. By itself its listener ends with its
connection, and the process hears nothing more; here it listens again, after
fetching the messages that have not expired, as it does at its start.
"""

import asyncio
import logging

import psycopg
from channels_postgres.core import PostgresChannelLayer

logger = logging.getLogger(__name__)


class HubChannelLayer(PostgresChannelLayer):
    def __init__(self, *arguments, LISTEN, **config):
        super().__init__(*arguments, **config)
        # Its queries have kept the settings of the database; these are for its listener alone.
        self.db_params = {**self.db_params, **LISTEN}

    async def listen_to_all_channels(self):
        while True:
            try:
                return await super().listen_to_all_channels()
            except psycopg.OperationalError as error:
                # The hub told of a gap, was restarted, or is away; libpq tries the second host by itself.
                logger.warning("channels_postgres listens again: %s", error)
                await asyncio.sleep(1)
