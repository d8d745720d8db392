#!/bin/sh
# SPDX-License-Identifier: MIT
# What `./dev test` does a slice of, at length: long.sh BUILD PROGRAMS TOOLKIT_INCLUDE
# With 10000 programs it is 25 million operations, of which ten million call the driver; every fault,
# and a thousand kills.
set -eu

build=$1 programs=$2 include=$3
here=$(dirname "$0")
proof=$build/tests/proof/proof
library=$build/tests/checked/libcudamem_checked.so
shim=$build/tests/proof/libc_faults.so
# Others than those of the tests.
first=1000

python3 "$here/proof.py" "$proof" "$library" "$build/failures" \
	--programs "$programs" --length 2500 --first "$first"
python3 "$here/faults.py" driver "$proof" "$library" "$include" 0
python3 "$here/faults.py" pairs "$proof" "$library" "$include" 4000
python3 "$here/faults.py" libc "$proof" "$library" "$shim" 0
python3 "$here/faults.py" killed "$proof" "$library" "$shim" 0
python3 "$here/signals.py" "$proof" "$build/interpose/libcudamem.so" \
	"$build/tools/cudamemstat" $((programs / 10))
