#!/usr/bin/env python3
"""How the cost of a command grows: runs node.sh with nodes of several sizes and prints a table,
with the slope between the sizes in logarithms (1: ten times the size takes ten times as long).
Writes the same as a plot, if it is told where. Needs what node.sh needs.

    benches/growth.py [--rounds N] [--plot FILE.svg] GPUMAP
"""

import argparse
import math
import os
import pathlib
import re
import subprocess
import tempfile

# What grows, and the sizes: what node.sh takes from the environment. The rest of a node is
# as node.sh makes it.
SERIES = {
    "cgroups": [(500, {"OUTER": "10", "INNER": "50"}), (5000, {}), (50000, {"INNER": "1000"})],
    "processes": [(count, {"PROCESSES": str(count)}) for count in (200, 2000, 20000)],
    "programs": [(count, {"PROGRAMS": str(count)}) for count in (1, 100, 1000)],
    "GPUs of 7 instances": [(count, {"GPUS": count}) for count in (1, 8, 16)],
}
ROWS = {
    "cgroup -r / --json": "`cgroup -r`",
    "node --json": "`node`",
    "audit --json": "`audit`",
    "job JOB --json": "`job`",
    "pid PID --json": "`pid`",
}
ROW = re.compile(r"^(.+?) +best +([0-9.]+) ms")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def inventory(root, count):
    """A node's GPUs in MIG mode, each with seven instances of one compute instance."""
    write(root / "proc/devices", "Character devices:\n195 nvidia\n235 nvidia-caps\n510 nvidia-uvm\n")
    write(root / "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04\n")
    for path, numbers in [("nvidiactl", "195:255"), ("nvidia-uvm", "510:0")]:
        write(root / "dev" / path, f"c {numbers}\n")
    minors, minor = ["config 1", "monitor 2"], 3
    for gpu in range(count):
        address = f"0000:{0x10 + gpu:02x}:00.0"
        uuid = f"GPU-{gpu:08x}-2222-3333-4444-555555555555"
        write(root / f"dev/nvidia{gpu}", f"c 195:{gpu}\n")
        lines = f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nBus Location: \t {address}\nDevice Minor: \t {gpu}\n"
        write(root / f"proc/driver/nvidia/gpus/{address}/information", lines)
        for name, value in [("vendor", "0x10de"), ("device", "0x2335"), ("class", "0x030200"), ("numa_node", "0")]:
            write(root / f"sys/bus/pci/devices/{address}/{name}", f"{value}\n")
        for instance in range(1, 8):
            for place in (f"gi{instance}", f"gi{instance}/ci0"):
                minors.append(f"gpu{gpu}/{place}/access {minor}")
                access = f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
                write(root / f"proc/driver/nvidia/capabilities/gpu{gpu}/mig/{place}/access", access)
                write(root / f"dev/nvidia-caps/nvidia-cap{minor}", f"c 235:{minor} 444 0 0\n")
                minor += 1
    write(root / "proc/driver/nvidia-caps/mig-minors", "\n".join(minors) + "\n")


def measure(program, rounds, settings, scratch):
    """Milliseconds of each row on a node of this size."""
    if isinstance(settings.get("GPUS"), int):
        root = pathlib.Path(scratch) / f"gpus-{settings['GPUS']}"
        inventory(root, settings["GPUS"])
        settings = {"GPUS": str(root)}
    script = pathlib.Path(__file__).with_name("node.sh")
    command = ["bash", script, str(rounds), program]
    done = subprocess.run(command, env={**os.environ, **settings, "NO_WATCH": "1"}, stdout=subprocess.PIPE, text=True, check=True)
    found = (ROW.match(line) for line in done.stdout.splitlines())
    return {match[1]: float(match[2]) for match in found if match}


def slope(sizes, times):
    """Between the first size and the last."""
    return math.log(times[-1] / times[0]) / math.log(sizes[-1] / sizes[0])


COLOURS = ["#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5"]


def plot(results):
    """Lines in logarithmic axes, a panel for what grows, as SVG."""
    width, height, margin = 230, 190, 46
    parts = []
    for panel, (name, (sizes, rows)) in enumerate(results.items()):
        left = margin + panel * (width + margin)
        across = lambda size: left + width * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
        # From one millisecond to ten seconds.
        up = lambda ms: 30 + height * (1 - math.log10(max(ms, 1)) / 4)
        parts.append(f'<text x="{left}" y="18" font-weight="bold">{name}</text>')
        for power, label in enumerate(["1 ms", "10 ms", "0.1 s", "1 s", "10 s"]):
            y = up(10**power)
            parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#ddd"/>')
            if panel == 0:
                parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
        for size in sizes:
            parts.append(f'<text x="{across(size):.1f}" y="{height + 48}" text-anchor="middle">{size:,}</text>')
        for colour, times in zip(COLOURS, rows.values()):
            points = " ".join(f"{across(size):.1f},{up(ms):.1f}" for size, ms in zip(sizes, times))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    names = [name.strip("`") for name in ROWS.values()]
    for place, (colour, name) in enumerate(zip(COLOURS, names)):
        x = margin + place * 130
        parts.append(f'<path d="M{x} {height + 72}h22" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 28}" y="{height + 76}">{name}</text>')
    size = (margin + len(results) * (width + margin), height + 90)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, f'<rect width="{size[0]}" height="{size[1]}" fill="white"/>', *parts, "</svg>", ""])


def main(options):
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, sizes in SERIES.items():
            measured = [measure(options.program, options.rounds, dict(settings), scratch) for _, settings in sizes]
            rows = {title: [found[row] for found in measured] for row, title in ROWS.items()}
            results[name] = ([size for size, _ in sizes], rows)
            print(f"| {name} | " + " | ".join(f"{size:,}" for size, _ in sizes) + " | slope |")
            print("|---" * (len(sizes) + 2) + "|")
            for title, times in rows.items():
                cells = " | ".join(f"{ms:.1f} ms" for ms in times)
                print(f"| {title} | {cells} | {slope(results[name][0], times):.2f} |", flush=True)
            print()
    if options.plot:
        pathlib.Path(options.plot).write_text(plot(results))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--plot")
    arguments.add_argument("program")
    main(arguments.parse_args())
