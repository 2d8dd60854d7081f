"""Four workers that share the memory of the application. Nothing is connected before they are there."""

import os

workers = int(os.environ.get("WORKERS", 4))
worker_class = "uvicorn.workers.UvicornWorker"
preload_app = True
bind = os.environ.get("BIND", "127.0.0.1:9292")
chdir = os.path.dirname(os.path.abspath(__file__))
wsgi_app = "app:app"
