# Copyright The gpumap developers
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *


class Gpumap(CargoPackage):
    """Shows which GPUs each job, container and process on a Linux node may open,
    and which BPF program decides that."""

    license("MIT OR Apache-2.0")

    # A release adds its line: version("0.1.0", sha256="…"), and url = "…" above.
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")

    @run_after("install")
    def install_manual(self):
        mkdirp(self.prefix.share.man.man1)
        for page in find("man", "*.1", recursive=False):
            install(page, self.prefix.share.man.man1)
