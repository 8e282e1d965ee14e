// Ties the pages together: which one is shown, and the permalink.

import * as playground from "/static/playground.js";
import * as runs from "/static/runs.js";
import { fromFragment, state, toFragment } from "/static/state.js";

function showPage() {
  for (const page of ["playground", "runs"]) document.getElementById(page).hidden = page !== state.page;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === state.page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (state.page === "runs") runs.start();
}

function remember() {
  history.replaceState(null, "", `#${toFragment()}`);
}

document.getElementById("share").addEventListener("click", async ({ target }) => {
  await navigator.clipboard.writeText(location.href);
  target.textContent = "Copied";
  setTimeout(() => { target.textContent = "Copy link"; }, 1200);
});

fromFragment(location.hash);
showPage();
await playground.start(remember);

addEventListener("hashchange", () => {
  if (!fromFragment(location.hash)) return;
  showPage();
  if (state.page === "playground") playground.restore();
});
