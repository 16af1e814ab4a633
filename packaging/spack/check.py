#!/usr/bin/env python3
"""Runs the steps of package.py that Spack runs after `cargo install`, with stand-ins
for the names of Spack's package API (v2.0) that the recipe uses: no package registry
has Spack itself. A name that the API does not have, or has with other arguments, is
an error here.

usage: check.py GPUMAP PREFIX   (from the root of the repository)
"""

import glob
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path


class Prefix(str):
    """A path whose attributes are the paths below it."""

    def __getattr__(self, name):
        return Prefix(os.path.join(self, name))


class Executable:
    def __init__(self, name):
        self.command = [str(name)]

    def __call__(self, *args, output=None):
        subprocess.run(self.command + list(args), stdout=output, check=True)


def find(root, files, *, recursive=True):
    return sorted(glob.glob(os.path.join(root, "**" if recursive else "", files), recursive=recursive))


def mkdirp(*paths):
    for path in paths:
        os.makedirs(path, exist_ok=True)


def completions(*parts):
    return lambda root: Path(root).joinpath("share", *parts)


STEPS = []
DIRECTIVES = []


def directive(name, options):
    def declare(*args, **given):
        assert set(given) <= set(options), f"{name} takes no {set(given) - set(options)}"
        DIRECTIVES.append((name, *args))

    return declare


def run_after(*phases):
    assert set(phases) <= {"build", "install"}, f"CargoPackage has no phase {phases}"
    return lambda step: STEPS.append(step) or step


API = {
    "license": directive("license", ["checked_by", "when"]),
    "version": directive("version", ["sha256", "branch", "url", "git", "preferred", "deprecated"]),
    "depends_on": directive("depends_on", ["when", "type", "patches"]),
    "run_after": run_after,
    "mkdirp": mkdirp,
    "find": find,
    "install": shutil.copy,
    "join_path": os.path.join,
    "Executable": Executable,
    "bash_completion_path": completions("bash-completion", "completions"),
    "zsh_completion_path": completions("zsh", "site-functions"),
    "fish_completion_path": completions("fish", "vendor_completions.d"),
}


def module(name, names):
    made = types.ModuleType(name)
    made.__dict__.update(names)
    sys.modules[name] = made


def main(binary, prefix):
    prefix = Prefix(os.path.abspath(prefix))
    module("spack", {})
    module("spack.package", API)
    for name in ["spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"]:
        module(name, {})
    module("spack_repo.builtin.build_systems.cargo", {"CargoPackage": type("CargoPackage", (), {"prefix": prefix})})
    recipe = {}
    text = Path(__file__).with_name("package.py").read_text()
    exec(compile(text, "package.py", "exec"), recipe)
    package = recipe["Gpumap"]()
    # What the phase `install` leaves: `cargo install --root` made bin/gpumap.
    mkdirp(prefix.bin)
    shutil.copy(binary, prefix.bin.gpumap)
    for step in STEPS:
        step(package)
    needs = {args[0].split("@")[0] for name, *args in DIRECTIVES if name == "depends_on"}
    assert needs == {"c", "rust"}, needs
    minimum = [args[0] for name, *args in DIRECTIVES if name == "depends_on" and args[0].startswith("rust")]
    asked = [line.split('"')[1] for line in open("Cargo.toml") if line.startswith("rust-version")]
    assert minimum == [f"rust@{asked[0]}:"], (minimum, asked)
    assert package.build_args == ["--locked"] and package.check_args[0] == "--locked"
    share = Path(prefix.share)
    for file in [
        "man/man1/gpumap.1",
        "bash-completion/completions/gpumap",
        "zsh/site-functions/_gpumap",
        "fish/vendor_completions.d/gpumap.fish",
    ]:
        assert (share / file).stat().st_size > 0, file
    assert len(list((share / "man/man1").iterdir())) == len(find("man", "*.1", recursive=False))


main(*sys.argv[1:])
