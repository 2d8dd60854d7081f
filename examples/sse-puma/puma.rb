# frozen_string_literal: true

# A cluster that shares the memory of the application. Nothing is connected before the workers are there.
preload_app!
workers Integer(ENV.fetch('WORKERS', 4))
threads 1, 5
environment 'production'
rackup File.join(__dir__, 'config.ru')
bind ENV.fetch('BIND', 'tcp://127.0.0.1:9292')
