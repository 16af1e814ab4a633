"""table.py [--page FILE] DIR MACHINE…: reads what the machines wrote
(DIR/MACHINE.out/output), prints module × machine with the reasons for what was skipped and
the messages of what failed. With --page it puts the cells of these modules and machines into
the table of this page, between its two marks, and leaves the others as they are. Ends with 1
if a test failed, or if a machine did not finish."""

import argparse
import pathlib
import re
import sys

TEST = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
SECTION = re.compile(r"^---- (\S+) stdout ----$")
END = re.compile(r"^test result: ")


def module(name):
    """`kernel::doctor` of `kernel::doctor::user_namespace`."""
    return "::".join(name.split("::")[:2])


class Machine:
    """What one machine wrote: each test with its result, what it printed, and the modules
    that began and did not reach their end."""

    def __init__(self, directory):
        self.results, self.said, binary, section, self.open = {}, {}, None, None, set()
        output = directory / "output"
        text = output.read_text(errors="replace") if output.exists() else ""
        for line in text.splitlines():
            if line.startswith("== "):
                running, section = module(line[3:]), None
                binary = running.split("::")[0]
                self.open.add(running)
            elif found := TEST.match(line):
                self.results[f"{binary}::{found[1]}"] = found[2]
            elif found := SECTION.match(line):
                section = f"{binary}::{found[1]}"
            elif END.match(line):
                section = None
                self.open.discard(running)
            elif section:
                self.said.setdefault(section, []).append(line)
        self.complete = bool(self.results) and not self.open and (directory / "status").exists()

    def skipped(self, test):
        """Why a test did nothing, in its own words."""
        lines = self.said.get(test, [])
        return next((line[len("skipped: "):] for line in lines if line.startswith("skipped: ")), None)


def cell(machine, tests):
    """`12`, or `9, 2 failed, 1 skipped`."""
    run = [test for test in tests if test in machine.results]
    failed = sum(machine.results[test] == "FAILED" for test in run)
    skipped = sum(machine.results[test] == "ok" and machine.skipped(test) is not None for test in run)
    passed = sum(machine.results[test] == "ok" for test in run) - skipped
    parts = [str(passed)] + [f"{number} {word}" for number, word in ((failed, "failed"), (skipped, "skipped")) if number]
    return ", ".join(parts) if run else "-"


MARKS = ("<!-- written by tests/machines/table.py -->", "<!-- end -->")


def column(machine):
    """The name of a machine in the page: the first two numbers of its kernel, and how it
    was started."""
    return re.sub(r"^(\d+\.\d+)[^-]*-?", r"\1 ", machine).strip()


def of_page(table):
    """The cells of a table in Markdown, by module and column."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]
    if not lines:
        return {}
    return {(line[0].strip("`"), name): text for line in lines[2:] for name, text in zip(lines[0][1:], line[1:])}


def write_page(file, fresh):
    """Puts cells into the table of a page. What did not run is not known: `?`."""
    before, rest = file.read_text().split(MARKS[0])
    table, after = rest.split(MARKS[1])
    cells = {**of_page(table), **fresh}
    numbers = lambda name: [int(number) for number in re.findall(r"\d+", name)]
    columns = sorted({name for _, name in cells}, key=lambda name: (numbers(name), name))
    rows = [["module", *columns], ["---"] * (len(columns) + 1)]
    for row in sorted({row for row, _ in cells}):
        rows.append([f"`{row}`", *(cells.get((row, name), "?") for name in columns)])
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    file.write_text(f"{before}{MARKS[0]}\n{lines}{MARKS[1]}{after}")


def main(directory, releases, page):
    machines = {release: Machine(pathlib.Path(directory) / f"{release}.out") for release in releases}
    modules = {}
    for machine in machines.values():
        for test in machine.results:
            modules.setdefault(module(test), set()).add(test)
    rows = [["module", *releases]]
    rows += [[name, *(cell(machines[r], modules[name]) for r in releases)] for name in sorted(modules)]
    if page:
        # Of a module that was stopped it is not known what its other tests would have said.
        ran = {
            (row[0], column(name)): text
            for row in rows[1:]
            for name, text in zip(releases, row[1:])
            if row[0] not in machines[name].open
        }
        write_page(pathlib.Path(page), {place: text for place, text in ran.items() if text != "-"})
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    good = True
    for release, machine in machines.items():
        reasons = {}
        for test in machine.results:
            if (why := machine.skipped(test)) is not None:
                reasons.setdefault(why, []).append(test)
        for why, tests in sorted(reasons.items()):
            print(f"\n{release}: skipped, for {why}:\n  " + "\n  ".join(sorted(tests)))
        for test, result in sorted(machine.results.items()):
            if result == "FAILED":
                good = False
                print(f"\n{release}: {test} failed:")
                print("\n".join("  " + line for line in machine.said.get(test, [])[:12]))
        if not machine.complete:
            good = False
            print(f"\n{release}: the machine did not reach the end of its tests")
    return 0 if good else 1


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--page")
    arguments.add_argument("directory")
    arguments.add_argument("machines", nargs="+")
    options = arguments.parse_args()
    sys.exit(main(options.directory, options.machines, options.page))
