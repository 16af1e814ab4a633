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


class Machine:
    """What one machine wrote: each test with its result, what it printed, and whether
    every test binary reached its end."""

    def __init__(self, directory):
        self.results, self.said, binary, section, self.open = {}, {}, None, None, 0
        output = directory / "output"
        text = output.read_text(errors="replace") if output.exists() else ""
        for line in text.splitlines():
            if line.startswith("== "):
                binary, section = line[3:], None
                self.open += 1
            elif found := TEST.match(line):
                self.results[f"{binary}::{found[1]}"] = found[2]
            elif found := SECTION.match(line):
                section = f"{binary}::{found[1]}"
            elif END.match(line):
                section, self.open = None, self.open - 1
            elif section:
                self.said.setdefault(section, []).append(line)
        self.complete = bool(self.results) and self.open == 0

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
    for module in sorted({module for module, _ in cells}):
        rows.append([f"`{module}`", *(cells.get((module, name), "?") for name in columns)])
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    file.write_text(f"{before}{MARKS[0]}\n{lines}{MARKS[1]}{after}")


def main(directory, releases, page):
    machines = {release: Machine(pathlib.Path(directory) / f"{release}.out") for release in releases}
    modules = {}
    for machine in machines.values():
        for test in machine.results:
            modules.setdefault("::".join(test.split("::")[:2]), set()).add(test)
    rows = [["module", *releases]]
    rows += [[module, *(cell(machines[r], modules[module]) for r in releases)] for module in sorted(modules)]
    if page:
        # Of a machine that was stopped it is not known what its other tests would have said.
        ran = {
            (row[0], column(name)): text
            for row in rows[1:]
            for name, text in zip(releases, row[1:])
            if machines[name].complete
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
