#!/bin/bash
# Makes the pictures of the README: pages of saved nodes, as headless Chromium shows
# them. Needs chromium and nodejs; GPUMAP names a gpumap to use.
set -euo pipefail
cd "$(dirname "$0")/.."
gpumap=${GPUMAP:-target/debug/gpumap}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p docs/images

# An exit status of 3 says that something of the saved node is not known.
"$gpumap" --from fixtures/nodes/slurm-jobs.json report -o "$scratch/node.html" >/dev/null || [ $? = 3 ]
# The first cell of job 4712 that is allowed, its drawing, and the proof behind it.
open='(() => {
    const cell = [...document.querySelectorAll(".matrix td a")].find((one) => /; allowed(;|\.|$)/.test(one.getAttribute("aria-label")));
    const verdict = document.getElementById(cell.getAttribute("href").slice(1));
    const step = [...verdict.closest("table").querySelectorAll("a.step")].find((one) => one.closest("td").cellIndex === verdict.cellIndex);
    const stack = verdict.closest("article");
    const proof = document.getElementById(step.getAttribute("href").slice(1));
    proof.open = true;
    const both = document.createElement("main");
    both.id = "picture";
    both.append(stack, proof);
    document.body.replaceChildren(both, ...document.querySelectorAll("svg.defs"));
})()'
node tests/support/browser.js "$(command -v chromium)" "$scratch/profile" >/dev/null <<JOBS
[
  {"url": "file://$scratch/node.html", "width": 1200, "height": 1000, "shot": "docs/images/report-node.png"},
  {"url": "file://$scratch/node.html", "width": 1000, "height": 900, "dark": true, "run": $(python3 -c 'import json,sys; print(json.dumps(sys.argv[1]))' "$open"),
   "clip": "#picture", "shot": "docs/images/report-proof.png"}
]
JOBS
ls -l docs/images
