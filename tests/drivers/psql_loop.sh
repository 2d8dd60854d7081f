#!/bin/sh
# psql: it looks for notifications after each statement.
while :; do
  {
    echo "LISTEN drivers; SELECT 'ready';"
    while sleep 0.05; do echo "SELECT '';" || exit; done
  } 2>/dev/null | psql -XqAt -d "$1" 2>&1 | sed -un -e 's/^ready$/ready/p' \
    -e 's/^Asynchronous notification "drivers" with payload "\(.*\)" received.*/got \1/p'
  echo lost
done
