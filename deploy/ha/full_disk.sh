#!/bin/sh
# Let a standby take over when this machine is the primary and its disk is full: PostgreSQL ends itself
# only when its log needs room, and refuses writes until then. As the user postgres, beside Patroni:
#   full_disk.sh patroni.yml
set -eu
name=$(sed -n 's/^name: *//p' "$1")
data=$(sed -n 's/^ *data_dir: *//p' "$1")

is_full() {
    [ "$(df --output=avail --block-size=1M "$data" | tail -n 1)" -lt 100 ]
}

is_standby() {
    [ -e "$data/standby.signal" ]
}

while sleep 3; do
    if is_full && ! is_standby; then
        # It may be refused, which its exit code does not tell: it is tried again.
        patronictl --config-file "$1" switchover --leader "$name" --force || true
        if is_standby; then
            # Once: the disks of the others may be full too.
            while is_full; do sleep 3; done
        fi
    fi
done
