// Runs: what is running and what is done, live; their reports and their data.

import { element, get } from "/static/api.js";
import { bytes, lineChart } from "/static/charts.js";
import { drawParts } from "/static/parts.js";
import { traceForm } from "/static/trace.js";

const $ = (id) => document.getElementById(id);
const NUMBERS = new Set(["documents", "tokens"]);
let source = null;

export async function start() {
  source?.close();
  $("run-view").replaceChildren();
  const { runs } = await get("/api/runs");
  if (!runs.length) {
    $("run-list").replaceChildren(element("p", { textContent: "No run in the served directories yet. Start one with: tokenmill prepare INPUT --tokenizer T --output DIR" }));
    return;
  }
  const head = element("tr");
  for (const name of ["run", "state", "documents", "tokens", "format"]) head.append(element("th", { textContent: name, scope: "col", className: NUMBERS.has(name) ? "number" : "" }));
  const body = element("tbody", {}, ...runs.map(runRow));
  $("run-list").replaceChildren(element("div", { className: "wide", tabIndex: 0 }, element("table", {}, element("thead", {}, head), body)));
}

function runRow(run) {
  const open = element("button", { type: "button", textContent: run.name });
  open.addEventListener("click", () => show(run));
  const cell = (name) => element("td", { className: NUMBERS.has(name) ? "number" : "", textContent: run[name]?.toLocaleString() ?? "–" });
  return element("tr", {}, element("td", {}, open), ...["state", "documents", "tokens", "format"].map(cell));
}

function show(run) {
  source?.close();
  const title = element("h3", { textContent: run.name });
  $("run-view").replaceChildren(title);
  if (run.state === "done") showData(run);
  else follow(run);
}

function follow(run) {
  const bar = element("progress", { max: 1, value: 0 });
  bar.setAttribute("aria-label", `Progress of ${run.name}`);
  const line = element("p", { id: "live" });
  const charts = element("div", { className: "charts" });
  $("run-view").append(bar, line, charts);
  const speed = liveSpeed();
  source = new EventSource(`/api/runs/${encodeURIComponent(run.id)}/events`);
  source.onmessage = async (event) => {
    const data = JSON.parse(event.data);
    charts.replaceChildren(lineChart("Read", speed(data.bytes ?? 0), (value) => `${bytes(value)}/s`));
    if (data.bytes_total) bar.value = data.bytes / data.bytes_total;
    line.textContent = `${data.state}: ${data.units_done ?? 0} of ${data.units_total ?? "?"} units, ${(data.documents ?? 0).toLocaleString()} documents, ${(data.tokens ?? 0).toLocaleString()} tokens${data.error ? `; ${data.error}` : ""}`;
    if (data.state === "running" || data.state === "waiting") return;
    source.close();
    if (data.state !== "done") return;
    bar.value = 1;
    const { runs } = await get("/api/runs");
    showData(runs.find(({ id }) => id === run.id) ?? run);
  };
  source.onerror = () => { line.textContent ||= "The server does not answer."; };
}

// Bytes per second between two updates of a running job.
function liveSpeed() {
  const begun = performance.now() / 1000;
  const points = [];
  let last = null;
  return (total) => {
    const now = performance.now() / 1000 - begun;
    if (last && total >= last.total && now > last.now) points.push([now, (total - last.total) / (now - last.now)]);
    last = { now, total };
    return points;
  };
}

// Read = written + dropped, by reason.
function accountTable({ documents, tokens, rejected }) {
  const rows = [["read", documents.read, tokens.read], ["written", documents.written, tokens.written]];
  const reasons = new Set([...Object.keys(documents.dropped), ...Object.keys(tokens.dropped)]);
  for (const reason of reasons) rows.push([`dropped: ${reason}`, documents.dropped[reason] ?? 0, tokens.dropped[reason] ?? 0]);
  for (const [reason, count] of Object.entries(rejected)) rows.push([`rejected: ${reason}`, count, null]);
  const head = element("tr", {}, ...["account", "documents", "tokens"].map((name) => element("th", { textContent: name, scope: "col", className: NUMBERS.has(name) ? "number" : "" })));
  const cell = (value) => element("td", { className: "number", textContent: value?.toLocaleString() ?? "–" });
  const body = rows.map(([name, ...values]) => element("tr", {}, element("th", { textContent: name, scope: "row" }), ...values.map(cell)));
  return element("table", { className: "account" }, element("thead", {}, head), element("tbody", {}, ...body));
}

function showData(run) {
  if (run.format === "tokenizer") return $("run-view").append(element("p", { textContent: "A tokenizer: the playground shows it." }));
  if (run.account) $("run-view").append(accountTable(run.account));
  const base = `/api/runs/${encodeURIComponent(run.id)}`;
  const report = element("a", { href: `/runs/${encodeURIComponent(run.id)}/report`, textContent: "Open the report" });
  const form = element("form", { className: "controls" });
  const kind = element("select", { name: "kind" }, ...["documents", "rows"].map((name) => element("option", { value: name, textContent: name })));
  kind.setAttribute("aria-label", "What to browse");
  const number = element("input", { type: "text", inputMode: "numeric", value: "0", name: "number" });
  number.setAttribute("aria-label", "Number");
  const go = element("button", { textContent: "Show" });
  const out = element("div");
  form.append(kind, number, go);
  $("run-view").append(element("p", {}, report), form, out);
  const load = () => get(`${base}/${kind.value}/${Number(number.value)}`).then((item) => drawItem(out, item), (error) => { out.textContent = error.message; });
  form.addEventListener("submit", (event) => { event.preventDefault(); load(); });
  load();
  $("run-view").append(traceForm(base));
}

function drawItem(out, item) {
  const text = drawParts(item.parts, item.trained ? undefined : (_, index) => (index ? "boundary" : ""));
  const cut = item.ids?.length < item.tokens ? `, the first ${item.ids.length.toLocaleString()} shown` : "";
  const facts = `${item.tokens.toLocaleString()} tokens${cut}${item.trained ? "; trained text is underlined" : ""}`;
  out.replaceChildren(element("p", { textContent: facts }), text);
}
