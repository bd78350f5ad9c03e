#!/bin/sh
# Let a standby take over when this machine is the primary and its disk is full: PostgreSQL ends itself
# only when its log needs room, and refuses writes until then. As the user postgres, beside Patroni:
#   full_disk.sh patroni.yml [MINUTES]
# Nothing happens in the MINUTES (10) after a failover: if all disks are full, each failover takes some
# of the room that is left, and nothing else is gained.
set -eu
name=$(sed -n 's/^name: *//p' "$1")
data=$(sed -n 's/^ *data_dir: *//p' "$1")

is_full() {
    [ "$(df --output=avail --block-size=1M "$data" | tail -n 1)" -lt 100 ]
}

is_standby() {
    [ -e "$data/standby.signal" ]
}

# A failover writes the history of the new timeline.
had_failover() {
    [ -n "$(find "$data/pg_wal" -name '*.history' -mmin "-$1")" ]
}

while sleep 3; do
    if is_full && ! is_standby && ! had_failover "${2:-10}"; then
        # It may be refused, which its exit code does not tell: it is tried again.
        patronictl --config-file "$1" switchover --leader "$name" --force || true
    fi
done
