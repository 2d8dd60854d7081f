# frozen_string_literal: true

require 'pgwake/version'
require 'pgwake/errors'
require 'pgwake/native'
require 'pgwake/event'
require 'pgwake/backlog'
require 'pgwake/readiness'
require 'pgwake/listener'
require 'pgwake/waker'

# PostgreSQL notifications through the host's one LISTEN connection (pgwaked), with a fallback of one's own.
module Pgwake
end
