// Tokenizers in figures: tokens and bytes per token, script by script, and how long their tokens are.

import { element } from "/static/api.js";

const LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, Infinity]; // bytes, each up to this many
const SHADES = 6;

export function lengthBucket(bytes) {
  return LENGTHS.findIndex((longest) => bytes <= longest);
}

export function shadeOf(bytes) {
  return Math.min(SHADES - 1, Math.floor(Math.log2(Math.max(1, bytes)) * 1.5));
}

function table(caption, head, rows) {
  const titles = element("tr", {}, ...head.map((name, column) => element("th", { textContent: name, scope: "col", className: column ? "number" : "" })));
  const node = element("table", {}, element("caption", { textContent: caption }), element("thead", {}, titles), element("tbody", {}, ...rows));
  const wide = element("div", { className: "wide", tabIndex: 0, role: "region" }, node);
  wide.setAttribute("aria-label", caption);
  return wide;
}

function cell(value, className = "number") {
  return element("td", { className, textContent: value });
}

function perToken({ bytes, tokens }) {
  return tokens ? (bytes / tokens).toFixed(2) : "–";
}

// One row per tokenizer; the best of a column is marked.
export function compareTable(results) {
  const scripts = [...new Set(results.flatMap((result) => result.scripts.map((row) => row.script)))];
  scripts.sort((a, b) => /^[a-z]/.test(a) - /^[a-z]/.test(b)); // scripts have a capital; punctuation, digits and the like come last
  const of = (result, script) => result.scripts.find((row) => row.script === script) ?? { bytes: 0, tokens: 0 };
  const values = results.map((result) => [perToken(result), ...scripts.map((script) => perToken(of(result, script)))]);
  const best = values[0].map((_, column) => Math.max(...values.map((row) => Number(row[column]) || 0)));
  const rows = results.map((result, place) => element("tr", {},
    element("th", { textContent: result.tokenizer, scope: "row" }), cell(result.tokens.toLocaleString()), cell(result.vocab_size.toLocaleString()),
    ...values[place].map((value, column) => cell(value, results.length > 1 && Number(value) === best[column] ? "number best" : "number"))));
  return table("Bytes per token, in all and for each script; more is shorter sequences", ["tokenizer", "tokens", "vocabulary", "in all", ...scripts], rows);
}

// A heat map: of each tokenizer's tokens, how many are how long.
export function lengthTable(results) {
  const head = ["tokenizer", ...LENGTHS.map((longest, at) => longest === Infinity ? `${LENGTHS[at - 1] + 1} +` : longest - (LENGTHS[at - 1] ?? 0) > 1 ? `${LENGTHS[at - 1] + 1}–${longest}` : `${longest}`)];
  const rows = results.map((result) => {
    const counts = LENGTHS.map(() => 0);
    result.ends.forEach((end, at) => { counts[lengthBucket(end - (result.ends[at - 1] ?? 0))] += 1; });
    const shares = counts.map((count) => (result.tokens ? count / result.tokens : 0));
    const cells = shares.map((share) => cell(share && share < 0.005 ? "< 1 %" : share ? `${Math.round(100 * share)} %` : "", `number h${share ? Math.min(SHADES - 1, Math.floor(share * 2 * SHADES)) : 0}`));
    return element("tr", {}, element("th", { textContent: result.tokenizer, scope: "row" }), ...cells);
  });
  return table("How many of the tokens have so many bytes", head, rows);
}

export function lengthLegend() {
  const node = element("p", { className: "heat", textContent: "Bytes of a token: " });
  for (const bytes of [1, 2, 3, 4, 8, 16]) node.append(element("span", { className: `token h${shadeOf(bytes)}`, textContent: ` ${bytes}${bytes === 16 ? " +" : ""} ` }), " ");
  return node;
}
