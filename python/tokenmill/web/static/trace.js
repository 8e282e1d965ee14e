// Which documents made a step of a training run: click a step, see the rows of every rank.

import { element, get } from "/static/api.js";

const AROUND = 5; // steps that can be clicked on each side

export function traceForm(base) {
  const fields = { length: field("Tokens in a row, if cut when read", ""), batch: field("Rows in a batch", "8"), ranks: field("Ranks", "1"), seed: field("Seed, if shuffled", ""), step: field("Step", "0") };
  const steps = element("div", { className: "steps" });
  steps.setAttribute("aria-label", "Steps nearby");
  steps.setAttribute("role", "group");
  const out = element("div", { id: "traced" });
  const form = element("form", { className: "controls" }, ...Object.values(fields).map(({ label }) => label), element("button", { textContent: "Trace the step" }));
  const look = async () => {
    try {
      const query = new URLSearchParams(Object.entries(fields).map(([name, { input }]) => [name, input.value.trim()]));
      const found = await get(`${base}/trace?${query}`);
      drawSteps(steps, found, (step) => { fields.step.input.value = step; look(); });
      drawRows(out, found);
    } catch (error) {
      out.textContent = error.message;
    }
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); look(); });
  return element("section", {}, element("h4", { textContent: "What a step of training reads" }), form, steps, out);
}

function field(name, value) {
  const input = element("input", { type: "text", inputMode: "numeric", value, size: 6 });
  return { input, label: element("label", {}, `${name} `, input) };
}

function drawSteps(node, { step, steps }, choose) {
  const first = Math.max(0, Math.min(step - AROUND, steps - 2 * AROUND - 1));
  const buttons = [];
  for (let at = first; at < Math.min(steps, first + 2 * AROUND + 1); at++) {
    const button = element("button", { type: "button", textContent: at.toLocaleString() });
    if (at === step) button.setAttribute("aria-current", "step");
    button.addEventListener("click", () => choose(String(at)));
    buttons.push(button);
  }
  node.replaceChildren(...buttons, element("span", { className: "soft", textContent: ` of ${steps.toLocaleString()} steps in an epoch` }));
}

function drawRows(out, { rows, left_out: leftOut }) {
  const list = rows.map((row) => {
    const text = element("div", { className: "document", tabIndex: 0 });
    row.documents.forEach((part, index) => text.append(element("span", { className: index ? "boundary" : "", textContent: part.text, title: `document ${part.document}` })));
    const names = row.documents.map((part) => part.document.toLocaleString()).join(", ");
    return element("details", { open: rows.length === 1 }, element("summary", { textContent: `rank ${row.rank}, row ${row.place} of its batch: row ${row.row.toLocaleString()} of the dataset, documents ${names}` }), text);
  });
  out.replaceChildren(...list, ...(leftOut ? [element("p", { textContent: `and ${leftOut.toLocaleString()} rows more` })] : []));
}
