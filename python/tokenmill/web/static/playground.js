// The playground: one to four tokenizers on one text, side by side.

import { element, get, post } from "/static/api.js";
import { compareTable, lengthLegend, lengthTable } from "/static/compare.js";
import { acceptFiles } from "/static/files.js";
import { drawParts } from "/static/parts.js";
import { CONVERSATION, SAMPLE } from "/static/sample.js";
import { state, VIEWS } from "/static/state.js";
import { TokenView, commonStretches, tokenText, visible } from "/static/tokens.js";

const $ = (id) => document.getElementById(id);
const TYPING_PAUSE = 150; // milliseconds
const LARGEST_TEXT = 4 << 20;
const FIRST_SHOWN = 3; // of the tokenizers found; a fourth can be added
const MOST_TRIED = 8; // tokenizers that are loaded to find some that differ

let known = [];
let views = [];
let inFlight = null;
let timer = 0;
let onChange = () => {};

export async function start(changed) {
  onChange = changed;
  const { tokenizers } = await get("/api/tokenizers");
  known = tokenizers;
  if (!state.tokenizers.length) state.tokenizers = await chooseDifferent(tokenizers);
  state.text ??= SAMPLE;
  state.chat ??= CONVERSATION;
  $("text").addEventListener("input", () => { state[box()] = $("text").value; later(); });
  for (const [id, flag] of [["whitespace", "whitespace"], ["layer-pieces", "pieces"], ["layer-normalized", "normalized"], ["parse-special", "special"]]) {
    $(id).addEventListener("change", () => { state[flag] = $(id).checked; refresh(); });
  }
  $("add").addEventListener("click", () => { state.tokenizers.push(""); drawPickers(); $("pickers").lastElementChild.querySelector("select").focus(); });
  $("sample").addEventListener("click", () => showText(box() === "chat" ? CONVERSATION : SAMPLE, ""));
  acceptFiles($("playground"), $("open-file"), $("file"), showText);
  for (const tab of $("views").children) tab.addEventListener("click", () => { state.view = tab.dataset.view; restore(); });
  $("views").addEventListener("keydown", moveTab);
  restore();
}

// The first few with different ids, one of each folder first. Tokenizers that cannot be loaded are left out.
async function chooseDifferent(names) {
  const folders = new Set();
  const first = names.filter((name) => !folders.has(name.split("/")[0]) && folders.add(name.split("/")[0]));
  const chosen = new Map();
  for (const tokenizer of [...new Set([...first, ...names])].slice(0, MOST_TRIED)) {
    const found = await post("/api/tokenize", { tokenizer, text: "" }).catch(() => null);
    if (found && !chosen.has(found.fingerprint)) chosen.set(found.fingerprint, tokenizer);
    if (chosen.size === FIRST_SHOWN) break;
  }
  return [...chosen.values()];
}

// The arrow keys go from tab to tab, as in any list of tabs.
function moveTab(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  state.view = VIEWS[(VIEWS.indexOf(state.view) + step + VIEWS.length) % VIEWS.length];
  restore();
  $(`tab-${state.view}`).focus();
}

// Which text is in the box: conversations have one of their own.
function box() {
  return state.view === "chat" ? "chat" : "text";
}

async function showText(text, from) {
  state[box()] = text;
  $("text").value = text;
  await refresh();
  if (from) say(`Shown: ${from}`);
}

export function restore() {
  for (const tab of $("views").children) {
    const chosen = tab.dataset.view === state.view;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  $("text").value = state[box()];
  $("whitespace").checked = state.whitespace;
  $("layer-pieces").checked = state.pieces;
  $("layer-normalized").checked = state.normalized;
  $("parse-special").checked = state.special;
  drawPickers();
  refresh();
}

function drawPickers() {
  if (!state.tokenizers.length) state.tokenizers = [""];
  $("pickers").replaceChildren(...state.tokenizers.map(picker));
  $("add").disabled = state.tokenizers.length >= 4;
}

function picker(name, index) {
  const names = [...new Set([...known, name].filter(Boolean))];
  const input = element("select", {}, element("option", { value: "", textContent: names.length ? "choose a tokenizer" : "none found in the served directories" }),
    ...names.map((one) => element("option", { value: one, textContent: one })));
  input.value = name;
  input.setAttribute("aria-label", `Tokenizer ${index + 1}`);
  input.addEventListener("change", () => { state.tokenizers[index] = input.value; refresh(); });
  const remove = element("button", { type: "button", textContent: "×" });
  remove.setAttribute("aria-label", `Remove tokenizer ${index + 1}`);
  remove.disabled = state.tokenizers.length === 1;
  remove.addEventListener("click", () => { state.tokenizers.splice(index, 1); drawPickers(); refresh(); });
  return element("div", { className: "picker" }, input, remove);
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(refresh, TYPING_PAUSE);
}

async function refresh() {
  onChange();
  inFlight?.abort();
  inFlight = new AbortController();
  const names = state.tokenizers.filter(Boolean);
  const text = state[box()];
  if (text.length > LARGEST_TEXT) return say(`The text has ${text.length.toLocaleString()} characters; the playground takes up to ${LARGEST_TEXT.toLocaleString()}.`);
  try {
    if (state.view === "card") return await drawCards(names, inFlight.signal);
    const special = state.special ? "parse" : "text";
    const chat = box() === "chat";
    const asked = names.map((tokenizer) => post(chat ? "/api/chat" : "/api/tokenize", { tokenizer, text, special }, inFlight.signal));
    const answers = await Promise.allSettled(asked);
    const failed = answers.find((answer) => answer.status === "rejected");
    if (failed?.reason.name === "AbortError") return;
    say(failed?.reason.message ?? (names.length ? "" : "No tokenizer is chosen. Start the server with directories that hold some: tokenmill serve DIR"));
    const results = answers.filter((answer) => answer.status === "fulfilled").map((answer) => answer.value); // one that fails hides no other
    if (chat) drawChats(results);
    else draw(results, text);
  } catch (error) {
    say(error.message);
  }
}

function say(message) {
  $("message").textContent = message;
}

// The token panel is beside the panels in a wide window, and below the chosen one's panel in a narrow one.
function clearDetail(alone) {
  const work = document.querySelector(".work");
  $("detail").replaceChildren(...(alone ? [] : [element("p", { className: "soft", textContent: "Point at a token to see its id, bytes, rank and count; choose it to see its merges." })]));
  work.classList.toggle("alone", alone);
  work.append($("detail"));
}

function placeDetail(view) {
  if (matchMedia("(min-width: 64rem)").matches) document.querySelector(".work").append($("detail"));
  else view.node.closest(".panel").after($("detail"));
}

// What the vocabulary itself holds, as the server draws it for `tokenizer card --html`.
async function drawCards(names, signal) {
  clearDetail(true);
  $("view").setAttribute("aria-labelledby", "tab-card");
  say("Reading the vocabularies …");
  const answers = await Promise.allSettled(names.map((tokenizer) => post("/api/card", { tokenizer }, signal)));
  const failed = answers.find((answer) => answer.status === "rejected");
  if (failed?.reason.name === "AbortError") return;
  say(failed?.reason.message ?? "");
  const cards = answers.filter((answer) => answer.status === "fulfilled").map((answer) => answer.value);
  $("figures").replaceChildren();
  $("panels").className = "one";
  $("panels").replaceChildren(...cards.map(({ tokenizer, html }) => {
    const node = element("article", { className: "panel card" }, element("h3", { textContent: tokenizer }), element("div"));
    node.lastChild.innerHTML = html; // escaped by the server, and the page's policy runs no script in it
    return node;
  }));
}

function draw(results, text) {
  clearDetail(false);
  $("panels").className = "";
  const comparable = results.every((result) => result.normalized === null);
  const compared = comparable && results.length > 1;
  views = results.map((result) => new TokenView(result, {
    text, whitespace: state.whitespace, pieces: state.pieces, compared, heat: state.view === "lengths",
    stretches: results.length && comparable ? commonStretches(results) : result.ends,
  }));
  const figure = { compare: () => [compareTable(results)], lengths: () => [lengthTable(results), lengthLegend()] }[state.view];
  $("view").setAttribute("aria-labelledby", `tab-${state.view}`);
  $("figures").replaceChildren(...(results.length && figure ? figure() : []));
  $("panels").replaceChildren(...views.map(panel));
}

// A conversation by each tokenizer's chat template, with what of it is learned.
function drawChats(results) {
  clearDetail(true);
  $("panels").className = "";
  $("view").setAttribute("aria-labelledby", "tab-chat");
  $("figures").replaceChildren(element("p", { className: "soft", textContent: "What a model learns of it is underlined; the rest is only read. The template is the tokenizer's own, or “plain” where it has none." }));
  $("panels").replaceChildren(...results.map((result) => {
    const learned = result.parts.reduce((sum, part) => sum + (part.learned ? part.tokens : 0), 0);
    const facts = [["template", result.template], ["tokens", result.tokens ?? 0], ["learned", learned]];
    const line = element("p", { className: "figures" }, ...facts.map(([name, value]) => element("span", {}, `${name} `, element("b", { textContent: value.toLocaleString() }))));
    if (result.problem) line.append(element("span", { className: "bad", textContent: result.problem }));
    else if (!result.closed) line.append(element("span", { className: "bad", textContent: "no special token ends an answer: nothing tells a model to stop" }));
    return element("article", { className: "panel" }, element("h3", { textContent: result.tokenizer }), line, drawParts(result.parts));
  }));
}

function panel(view) {
  const { result } = view;
  const node = element("article", { className: "panel" }, element("h3", { textContent: result.tokenizer }), figures(result));
  if (state.normalized) node.append(element("div", { className: "layer", textContent: result.normalized ?? "The text is not changed before it is cut." }));
  node.append(view.node, copyButtons(view));
  view.node.addEventListener("mouseover", (event) => hover(view, event.target.closest(".token")));
  view.node.addEventListener("focusin", (event) => choose(view, event.target.closest(".token")));
  view.node.addEventListener("click", (event) => choose(view, event.target.closest(".token")));
  return node;
}

function figures(result) {
  const list = [
    ["tokens", result.tokens], ["bytes", result.bytes], ["characters", result.characters],
    ["bytes per token", result.tokens ? (result.bytes / result.tokens).toFixed(3) : "–"],
    ["vocabulary", result.vocab_size], ["engine", result.strategy],
  ];
  const node = element("p", { className: "figures" });
  for (const [name, value] of list) node.append(element("span", {}, `${name} `, element("b", { textContent: value.toLocaleString() })));
  const verdict = element("span", { className: result.round_trip ? "" : "bad", textContent: result.round_trip ? "round trip: exact" : "round trip: differs" });
  node.append(verdict);
  return node;
}

function copyButtons(view) {
  const { ids, ends } = view.result;
  const texts = () => ids.map((_, index) => tokenText(view.bytes.subarray(view.starts[index], ends[index])).text);
  const ways = {
    "Copy ids": () => ids.join(" "),
    "Copy JSON": () => JSON.stringify({ tokenizer: view.result.tokenizer, text: state.text, ids, tokens: texts() }),
    "Copy Python": () => `import tokenmill\n\ntok = tokenmill.Tokenizer.load(${JSON.stringify(view.result.source)})\nassert tok.encode(${JSON.stringify(state.text)}, special="${state.special ? "parse" : "text"}") == [${ids.join(", ")}]\n`,
  };
  const node = element("div", { className: "buttons" });
  for (const [label, make] of Object.entries(ways)) {
    const button = element("button", { type: "button", textContent: label });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(make());
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = label; }, 1200);
    });
    node.append(button);
  }
  return node;
}

// Everything that the answer has about a token, without asking the server again.
function listFacts(view, index) {
  const { ids, ends, ranks, counts, tokens, tokenizer, training_counts: trained } = view.result;
  const bytes = view.bytes.subarray(view.starts[index], ends[index]);
  const hex = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join(" ");
  const { text, whole } = tokenText(bytes);
  const rank = ranks[ids[index]];
  return [
    ["token", whole ? JSON.stringify(text) : `${text} (splits a character)`], ["id", ids[index]], ["bytes", hex || "none"],
    ["rank", rank === undefined ? "none: not made by a merge" : rank.toLocaleString()],
    ["count", `${counts[ids[index]].toLocaleString()} of ${tokens.toLocaleString()} tokens here`],
    ...(ids[index] in trained ? [["in training", `${trained[ids[index]].toLocaleString()} times in the training text`]] : []),
    ["at byte", `${view.starts[index]} to ${ends[index]}`], ["tokenizer", tokenizer],
  ];
}

function showFacts(facts) {
  const list = element("dl");
  for (const [name, value] of facts) list.append(element("dt", { textContent: name }), element("dd", { textContent: String(value) }));
  $("detail").replaceChildren(list);
}

function hover(view, token) {
  if (!token) return;
  const index = Number(token.dataset.index);
  for (const other of views) if (other !== view) other.twins(view.starts[index], view.result.ends[index]);
  const facts = listFacts(view, index);
  token.title ||= facts.slice(0, facts.length - 2).map(([name, value]) => `${name} ${value}`).join("\n");
  if (!document.querySelector(".token.chosen") && matchMedia("(min-width: 64rem)").matches) showFacts(facts);
}

async function choose(view, token) {
  if (!token) return;
  const index = Number(token.dataset.index);
  document.querySelector(".token.chosen")?.classList.remove("chosen");
  hover(view, token);
  token.classList.add("chosen");
  placeDetail(view);
  showFacts(listFacts(view, index));
  const steps = element("div");
  $("detail").append(steps);
  try {
    const history = await post("/api/merges", { tokenizer: view.result.tokenizer, id: view.result.ids[index] });
    drawHistory(steps, history);
  } catch (error) {
    steps.textContent = error.message;
  }
}

function drawHistory(steps, history) {
  if (history.steps.length < 2) return;
  const items = history.steps.map((step) => element("li", { textContent: step.map((part) => visible(part.text, true)).join(" + ") }));
  steps.append(element("p", { textContent: "How it is merged, step by step:" }), element("ol", {}, ...items));
}
