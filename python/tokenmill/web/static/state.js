// The page's state, and its permalink: everything that decides what is shown is in the URL fragment.

const LONGEST_LINK = 20000; // browsers and chat programs cut longer links

// A text of null was never chosen: the page then opens with its sample. `chat` is what the tab of conversations has.
export const state = { page: "playground", tokenizers: [], text: null, chat: null, whitespace: true, pieces: false, normalized: false, special: false, view: "tokens" };
export const VIEWS = ["tokens", "compare", "lengths", "card", "chat"];

const FLAGS = { whitespace: "w", pieces: "p", normalized: "n", special: "s" };

function toBase64Url(text) {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromBase64Url(code) {
  const binary = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder().decode(Uint8Array.from(binary, (c) => c.charCodeAt(0)));
}

export function toFragment() {
  if (state.page !== "playground") return state.page;
  const flags = Object.entries(FLAGS).filter(([name]) => state[name]).map(([, letter]) => letter).join("");
  const parts = new URLSearchParams();
  for (const name of state.tokenizers) if (name) parts.append("k", name);
  parts.set("f", flags);
  if (state.view !== "tokens") parts.set("v", state.view);
  const text = toBase64Url(state.text ?? "");
  if (text.length <= LONGEST_LINK) parts.set("t", text);
  const chat = toBase64Url(state.view === "chat" ? state.chat ?? "" : "");
  if (chat && chat.length <= LONGEST_LINK) parts.set("c", chat);
  return `playground?${parts}`;
}

// Returns false where the fragment is not one of ours, so that a damaged link changes nothing.
export function fromFragment(fragment) {
  const [page, query] = fragment.replace(/^#/, "").split("?");
  if (page !== "playground" && page !== "runs") return false;
  state.page = page;
  if (query === undefined) return true;
  const parts = new URLSearchParams(query);
  if (parts.has("k")) state.tokenizers = parts.getAll("k").slice(0, 4);
  for (const [name, letter] of Object.entries(FLAGS)) state[name] = (parts.get("f") ?? "w").includes(letter);
  state.view = VIEWS.includes(parts.get("v")) ? parts.get("v") : "tokens";
  try {
    if (parts.has("t")) state.text = fromBase64Url(parts.get("t"));
    if (parts.has("c")) state.chat = fromBase64Url(parts.get("c"));
  } catch {
    return false;
  }
  return true;
}
