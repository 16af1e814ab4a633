"use strict";
// Filters, the section that is in view, and the observation. The page says everything
// without it.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (query, from = document) => Array.from(from.querySelectorAll(query));

  for (const input of all("[data-filter]")) {
    const name = input.dataset.filter;
    const rows = all("#" + name + " " + (input.dataset.rows || "tbody tr"));
    const shown = document.querySelector('[data-shown="' + name + '"]');
    const words = rows.map((row) => row.textContent.toLowerCase());
    // A step belongs to the job above it: whoever looks for the job wants both.
    const depth = rows.map((row) => Number((/\bd(\d)\b/.exec(row.className) || [0, 0])[1]));
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase().trim();
      const keep = words.map((text) => text.includes(wanted));
      const above = [];
      rows.forEach((row, at) => {
        above.length = depth[at];
        if (above.some((from) => words[from].includes(wanted))) keep[at] = true;
        if (keep[at]) above.forEach((from) => { keep[from] = true; });
        above[depth[at]] = at;
      });
      let count = 0;
      rows.forEach((row, at) => { row.hidden = !keep[at]; count += keep[at] ? 1 : 0; });
      shown.textContent = wanted ? count + " of " + rows.length : "";
    });
  }

  // Browsers that do not open a folded proof by themselves.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  open();

  const links = new Map(all(".sections a").map((link) => [link.hash.slice(1), link]));
  if ("IntersectionObserver" in window) {
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        links.forEach((link) => link.removeAttribute("aria-current"));
        const link = links.get(entry.target.id);
        if (link) link.setAttribute("aria-current", "true");
      }
    }, { rootMargin: "-20% 0px -75% 0px" });
    all("main > section").forEach((section) => observer.observe(section));
  }

  const packed = document.getElementById("observation");
  const status = document.querySelector('[data-status="evidence"]');
  if (!packed) return;
  const unpack = async () => {
    const text = atob(packed.getAttribute("href").split(",")[1]);
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const actions = {
    async check() {
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await unpack()));
      const hex = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
      const same = hex === document.getElementById("sha256").textContent;
      return same ? "✓ The observation in this file has this SHA-256." : "✕ The observation has another SHA-256: " + hex;
    },
    async show() {
      const pre = document.querySelector("pre.observation");
      const value = JSON.parse(new TextDecoder().decode(await unpack()));
      pre.firstElementChild.textContent = JSON.stringify(value, null, 1)
        .replace(/[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
      pre.hidden = false;
      return "";
    },
  };
  for (const button of all("[data-do]")) {
    button.addEventListener("click", async () => {
      try {
        status.textContent = await actions[button.dataset.do]();
      } catch (error) {
        status.textContent = "✕ This browser cannot do it: " + error;
      }
    });
  }
})();
