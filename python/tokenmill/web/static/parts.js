// A text in stretches, those that are learned underlined: of a dataset's document, or of a typed conversation.

import { element } from "/static/api.js";

export function drawParts(parts, style = (part) => (part.learned ? "learned" : "")) {
  const node = element("div", { className: "document", tabIndex: 0 });
  parts.forEach((part, index) => node.append(element("span", { className: style(part, index), textContent: part.text })));
  return node;
}
