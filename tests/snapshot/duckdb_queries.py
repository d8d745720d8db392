# SPDX-License-Identifier: MIT
"""Runs SQL in DuckDB over databases of SQLite: duckdb_queries.py DATABASE COPIES

Standard input is JSON: `single`, queries over the database; `merge`, a script to run for each of so
many copies; `fleet`, queries over the outcome. The answer is JSON too: the rows of each query.
Exit status 77: DuckDB or its extension is not in this Python's environment.
"""

import json
import pathlib
import sys

try:
    import duckdb
    import duckdb_extension_sqlite_scanner as extension
except ImportError as error:
    print(error)
    sys.exit(77)

DATABASE, COPIES = sys.argv[1], int(sys.argv[2])
asked = json.load(sys.stdin)
base = duckdb.connect()
file, = (pathlib.Path(extension.__file__).parent / 'extensions').glob('*/sqlite_scanner.*')
base.execute(f"LOAD '{file}'")
base.execute(f"ATTACH '{DATABASE}' AS one; USE one")
rows = [base.execute(sql).fetchall() for sql in asked['single']]
base.execute('USE memory; DETACH one')
for number in range(COPIES):
    base.execute(asked['merge'].replace('SNAPSHOT', DATABASE).replace('NUMBER', str(number)))
rows += [base.execute(sql).fetchall() for sql in asked['fleet']]
print(json.dumps([[[cell.decode() if isinstance(cell, bytes) else int(cell)
                    if cell is not None and not isinstance(cell, str) else cell for cell in row]
                   for row in one] for one in rows]))
