# frozen_string_literal: true

# A cluster whose workers load the application each for itself, so that SIGUSR1 replaces them one after another (a
# phased restart): with preload_app! Puma refuses that.
workers Integer(ENV.fetch('WORKERS', 4))
threads 1, 5
environment 'production'
rackup File.join(__dir__, 'config.ru')
bind ENV.fetch('BIND', 'tcp://127.0.0.1:9292')
