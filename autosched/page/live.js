"use strict";
// Asks for a newer page now and then, and puts what it says in the place of what is shown.
(() => {
  const EVERY_MS = 2000;
  const status = document.getElementById("live");

  // Of a folded part, to unfold it again in the next page.
  const key = (part) => `${part.closest("figure")?.id ?? ""} ${part.querySelector("summary").textContent}`;

  function replace(text) {
    const next = new DOMParser().parseFromString(text, "text/html");
    const main = document.querySelector("main");
    const open = new Set([...main.querySelectorAll("details[open]")].map(key));
    main.style.minHeight = `${main.offsetHeight}px`; // charts are drawn later: stay where the reader is
    for (const part of ["title", "h1", "header p", "nav ul", "main"]) {
      document.querySelector(part).replaceChildren(...next.querySelector(part).childNodes);
    }
    main.querySelectorAll("details").forEach((part) => {
      part.open = open.has(key(part));
    });
    status.dataset.version = next.getElementById("live").dataset.version;
    document.dispatchEvent(new Event("replaced"));
  }

  async function look() {
    try {
      const headers = { "If-None-Match": `"${status.dataset.version}"` };
      const answer = await fetch("/", { headers, cache: "no-store" });
      if (answer.status === 200) {
        replace(await answer.text());
      }
      status.textContent = "Live: this page follows the log.";
    } catch {
      status.textContent = "`autosched watch` has ended; this is what the log said last.";
    }
  }

  async function follow() {
    if (!document.hidden) {
      await look();
    }
    setTimeout(follow, EVERY_MS);
  }

  setTimeout(follow, EVERY_MS);
})();
