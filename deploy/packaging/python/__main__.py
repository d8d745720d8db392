# SPDX-License-Identifier: MIT
"""python -m cudamem: cudamemstat."""

from cudamem import main

main()
