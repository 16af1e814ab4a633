# Copyright The gpumap developers
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *


class Gpumap(CargoPackage):
    """Shows which GPUs each job, container and process on a Linux node may open,
    and which BPF program decides that."""

    license("Apache-2.0 OR MIT")

    # A release adds its archive: url = "…" above, version("0.1.0", sha256="…") here.
    # Until then: spack develop --path CLONE gpumap@=main
    version("main")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")

    @property
    def build_args(self):
        return ["--locked"]

    @property
    def check_args(self):
        # Those that need neither root nor a kernel that takes programs.
        return ["--locked", "--lib", "--test", "docs"]

    @run_after("install")
    def install_manual(self):
        mkdirp(self.prefix.share.man.man1)
        for page in find("man", "*.1", recursive=False):
            install(page, self.prefix.share.man.man1)

    @run_after("install")
    def install_completions(self):
        gpumap = Executable(self.prefix.bin.gpumap)
        for shell, directory, name in [
            ("bash", bash_completion_path(self.prefix), "gpumap"),
            ("zsh", zsh_completion_path(self.prefix), "_gpumap"),
            ("fish", fish_completion_path(self.prefix), "gpumap.fish"),
        ]:
            mkdirp(directory)
            with open(join_path(directory, name), "w") as file:
                gpumap("completions", shell, output=file)
