-- SPDX-License-Identifier: MIT
-- A module for Lmod. It does not set LD_PRELOAD: that would reach every command of the shell, and
-- Slurm's own. Start programs by `cudamemstat run`, or srun with CUDAMEM=1.
help([[cudamemstat run -- ./program, or CUDAMEM=1 srun ./program where the TaskProlog is installed]])
whatis("Name: cudamem")
whatis("Description: caching allocator for unmodified CUDA programs")
local root = "/opt/cudamem"
prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(root, "share/man"))
-- An empty part stands for the pages of the system.
append_path("MANPATH", "")
setenv("LIBCUDAMEM", pathJoin(root, "lib/cudamem/libcudamem.so"))
