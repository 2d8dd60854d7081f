# frozen_string_literal: true

module Pgwake
  VERSION = '0.1.0'
end
