# frozen_string_literal: true

require_relative 'lib/pgwake/version'

Gem::Specification.new do |s|
  s.name = 'pgwake'
  s.version = Pgwake::VERSION
  s.summary = "PostgreSQL notifications through the host's one LISTEN connection"
  s.description = 'A client of pgwaked, which holds the one LISTEN connection of a host; it falls back to a connection ' \
                  'of its own while the hub is away, and says when something may have been missed. Needs libpgwake.so.1.'
  s.authors = ['the pgwake developers']
  s.license = 'PostgreSQL'
  s.required_ruby_version = '>= 3.1'
  s.files = Dir['lib/**/*.rb', 'README.md'].sort
  s.require_paths = ['lib']
  s.add_dependency 'fiddle', '~> 1.1'
  s.metadata['rubygems_mfa_required'] = 'true'
end
