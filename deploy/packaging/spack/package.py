# SPDX-License-Identifier: MIT
"""For Spack: copy to packages/cudamem/package.py of a repository of your own."""

from spack.package import *
from spack_repo.builtin.build_systems.meson import MesonPackage


class Cudamem(MesonPackage):
    """Caching allocator that is preloaded under unmodified CUDA programs, and a tool that shows from
    outside what their memory is doing."""

    homepage = "https://example.invalid/cudamem"
    # A release adds its tarball here, with the sum that ./dev package tarball prints.
    url = "https://example.invalid/cudamem-0.1.0.tar.xz"

    license("MIT", checked_by="cudamem")

    version("0.1.0", sha256="0" * 64)

    variant("tool", default=True, description="Build cudamemstat")
    variant("top", default=True, description="The full screen of cudamemstat top", when="+tool")

    depends_on("c", type="build")
    depends_on("meson@1.0.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.8:", type="build")
    # Headers alone: nothing of it is linked.
    depends_on("cuda@13:", type="build")
    with when("+tool"):
        depends_on("elfutils")
        depends_on("sqlite@3.23:")
        depends_on("util-linux")
        depends_on("zlib-api")
        depends_on("zstd")
        depends_on("ncurses", when="+top")

    conflicts("platform=darwin")
    conflicts("platform=windows")

    def meson_args(self):
        state = {True: "enabled", False: "disabled"}
        return [
            "-Dtests=false",
            "-Dtool=" + state["+tool" in self.spec],
            "-Dtop=" + state["+top" in self.spec],
            "-Dtoolkit_include=" + self.spec["cuda"].prefix.include,
        ]

    # Spack runs no preload while it builds, and neither does the module that it writes: programs are
    # started by `cudamemstat run`, or with LIBCUDAMEM, as by deploy/slurm/cudamem.lua.
    def setup_run_environment(self, env):
        env.set("LIBCUDAMEM", join_path(self.prefix.lib, "cudamem", "libcudamem.so"))
