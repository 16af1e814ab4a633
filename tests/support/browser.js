// Opens pages in headless Chromium through the DevTools pipe, and says what happened.
//
//   node browser.js CHROMIUM PROFILE < JOBS
//
// JOBS is a JSON list. A job has `url`, `width`, `height`, `dark`, `scripts`, `print`
// (media), `inject` (a file to run in the page first), `run` (an expression whose value, or that of its
// promise, is the result) and `shot` (a PNG to write; with `clip` a selector). For each
// job one line of JSON comes back: `value`, `failure`, `console` and `requests`.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");

const [chromium, profile] = process.argv.slice(2);
const jobs = JSON.parse(fs.readFileSync(0, "utf8"));
const flags = [
  "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
  "--hide-scrollbars", "--font-render-hinting=none", "--disable-dev-shm-usage",
  "--user-data-dir=" + profile, "--remote-debugging-pipe", "about:blank",
];
const browser = spawn(chromium, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const [, , , to, from] = browser.stdio;

let last = 0;
const waiting = new Map();
let listener = () => {};
let rest = "";
from.setEncoding("utf8");
from.on("data", (text) => {
  const parts = (rest + text).split("\0");
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    const found = waiting.get(message.id);
    if (!found) { listener(message); continue; }
    waiting.delete(message.id);
    if (message.error) found.reject(new Error(JSON.stringify(message.error))); else found.resolve(message.result);
  }
});
browser.on("exit", () => { for (const found of waiting.values()) found.reject(new Error("the browser ended")); });

function call(method, params = {}, sessionId) {
  last += 1;
  const id = last;
  to.write(JSON.stringify({ id, method, params, sessionId }) + "\0");
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

async function visit(job) {
  const told = { console: [], requests: [] };
  const { targetId } = await call("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => call(method, params, sessionId);
  let loaded;
  const done = new Promise((resolve) => { loaded = resolve; });
  listener = ({ method, params, sessionId: of }) => {
    if (of !== sessionId) return;
    if (method === "Page.loadEventFired") loaded();
    if (method === "Runtime.exceptionThrown") told.console.push(params.exceptionDetails.text);
    if (method === "Runtime.consoleAPICalled" && params.type === "error") told.console.push(JSON.stringify(params.args));
    if (method === "Log.entryAdded") told.console.push(params.entry.text);
    if (method === "Network.requestWillBeSent") told.requests.push(params.request.url.slice(0, 200));
  };
  for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(domain + ".enable");
  await send("Emulation.setDeviceMetricsOverride", { width: job.width || 1440, height: job.height || 900, deviceScaleFactor: job.scale || 1, mobile: false });
  await send("Emulation.setEmulatedMedia", { media: job.print ? "print" : "screen", features: [{ name: "prefers-color-scheme", value: job.dark ? "dark" : "light" }, { name: "prefers-reduced-motion", value: "reduce" }] });
  if (job.scripts === false) await send("Emulation.setScriptExecutionDisabled", { value: true });
  await send("Page.navigate", { url: job.url });
  await done;
  // DevTools still runs expressions where the scripts of the page are off.
  if (job.inject) await send("Runtime.evaluate", { expression: fs.readFileSync(job.inject, "utf8") + ";0" });
  if (job.run) {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression: job.run, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) told.failure = JSON.stringify(exceptionDetails); else told.value = result.value;
  }
  if (job.shot) {
    const params = { format: "png" };
    if (job.clip) {
      const box = `(() => { const box = document.querySelector(${JSON.stringify(job.clip)}).getBoundingClientRect(); return { x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height, scale: 1 }; })()`;
      params.clip = (await send("Runtime.evaluate", { expression: box, returnByValue: true })).result.value;
      params.captureBeyondViewport = true;
    }
    fs.writeFileSync(job.shot, Buffer.from((await send("Page.captureScreenshot", params)).data, "base64"));
  }
  await call("Target.closeTarget", { targetId });
  return told;
}

(async () => {
  for (const job of jobs) process.stdout.write(JSON.stringify(await visit(job)) + "\n");
  await call("Browser.close").catch(() => {});
})().catch((error) => {
  process.stderr.write(error + "\n");
  browser.kill();
  process.exit(1);
});
