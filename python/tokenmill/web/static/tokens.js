// Draws the tokens of one panel. A long text is drawn in blocks, each only when it is scrolled near.

import { element } from "/static/api.js";
import { shadeOf } from "/static/compare.js";

const BLOCK = 400; // tokens; about a screen and a half
const strict = new TextDecoder("utf-8", { fatal: true });

export function visible(text, showWhitespace) {
  if (!showWhitespace) return text;
  return text.replaceAll(" ", "·").replaceAll("\t", "→").replaceAll("\r", "␍").replaceAll("\n", "⏎\n");
}

export function tokenText(bytes) {
  try {
    return { text: strict.decode(bytes), whole: true };
  } catch {
    return { text: [...bytes].map((b) => `⟨${b.toString(16).padStart(2, "0")}⟩`).join(""), whole: false };
  }
}

// The start offsets that every panel has: between two of them all tokenizers see the same text, so a
// stretch takes one colour in all panels, and a token is marked where the stretch is cut differently.
export function commonStretches(results) {
  const [first, ...others] = results;
  const sets = others.map((result) => new Set(result.ends));
  const ends = first.ends.filter((end) => sets.every((set) => set.has(end)));
  return ends;
}

function stretchOf(ends, start) {
  let low = 0, high = ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] <= start) low = middle + 1; else high = middle;
  }
  return low;
}

export class TokenView {
  constructor(result, options) {
    this.result = result;
    this.options = options;
    this.bytes = new TextEncoder().encode(result.normalized ?? options.text);
    this.pieceEnds = new Set(options.pieces ? result.piece_ends : []);
    this.special = new Set(result.special);
    this.starts = [0, ...result.ends.slice(0, -1)];
    this.node = element("div", { className: "tokens", role: "list", ariaLabel: `Tokens of ${result.tokenizer}` });
    this.node.tabIndex = 0;
    this.observer = new IntersectionObserver((entries) => this.fill(entries), { root: this.node, rootMargin: "600px" });
    for (let start = 0; start < result.ids.length; start += BLOCK) this.addPlaceholder(start);
    this.node.addEventListener("keydown", (event) => this.move(event));
  }

  addPlaceholder(start) {
    const count = Math.min(BLOCK, this.result.ids.length - start);
    const block = element("span", { dataset: { start: String(start) }, role: "presentation" });
    if (start === 0) this.draw(block);
    else {
      block.style.display = "block";
      block.style.minHeight = `${Math.ceil(count / 12) * 1.9}em`;
      this.observer.observe(block);
    }
    this.node.append(block);
  }

  fill(entries) {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      this.observer.unobserve(entry.target);
      this.draw(entry.target);
    }
  }

  draw(block) {
    const start = Number(block.dataset.start);
    const end = Math.min(start + BLOCK, this.result.ids.length);
    block.style.display = "";
    block.style.minHeight = "";
    for (let index = start; index < end; index++) block.append(this.token(index));
  }

  token(index) {
    const { ids, ends } = this.result;
    const bytes = this.bytes.subarray(this.starts[index], ends[index]);
    const { text, whole } = tokenText(bytes);
    const stretch = stretchOf(this.options.stretches, this.starts[index]);
    const sole = this.options.stretches[stretch] === ends[index] && (stretch === 0 ? 0 : this.options.stretches[stretch - 1]) === this.starts[index];
    const node = element("span", { className: `token ${this.options.heat ? `h${shadeOf(bytes.length)}` : `c${stretch % 6}`}`, role: "listitem", dataset: { index: String(index) } });
    node.append(visible(text, this.options.whitespace) || "∅");
    node.setAttribute("aria-label", `${whole ? JSON.stringify(text) : text}, id ${ids[index]}`);
    if (this.options.compared && !sole) node.classList.add("differs");
    if (!whole) node.classList.add("bytes");
    if (this.special.has(index)) node.classList.add("special");
    if (this.pieceEnds.has(ends[index])) node.classList.add("piece-end");
    node.tabIndex = -1;
    return node;
  }

  // Arrow keys walk from token to token; the panel itself is one stop of the Tab key.
  move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const current = this.node.querySelector(".token:focus");
    const index = current ? Number(current.dataset.index) + step : 0;
    const next = this.node.querySelector(`[data-index="${index}"]`);
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  twins(from, to) {
    for (const node of this.node.querySelectorAll(".token")) {
      const index = Number(node.dataset.index);
      const overlaps = this.starts[index] < to && this.result.ends[index] > from;
      node.classList.toggle("twin", overlaps);
    }
  }
}
