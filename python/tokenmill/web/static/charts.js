// A line chart as plain SVG, with its last value in words for those who cannot see it.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 320, HEIGHT = 80;

function draw(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// `points` are [seconds, value]; the chart begins at 0.
export function lineChart(title, points, show, none = "nothing yet") {
  const figure = document.createElement("figure");
  figure.className = "chart";
  const last = points.length ? show(points.at(-1)[1]) : none;
  const top = Math.max(1e-9, ...points.map(([, value]) => value));
  const end = Math.max(1e-9, ...points.map(([seconds]) => seconds));
  const path = points.map(([x, y], at) => `${at ? "L" : "M"}${((x / end) * WIDTH).toFixed(1)} ${(HEIGHT - (y / top) * (HEIGHT - 4)).toFixed(1)}`).join("");
  const image = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${last}, at most ${show(top)}, over ${end.toFixed(0)} seconds`, preserveAspectRatio: "none" }, draw("path", { d: path || "M0 0", class: "line" }));
  const words = document.createElement("figcaption");
  words.textContent = `${title}: ${last}${points.length > 1 ? ` (at most ${show(top)})` : ""}`;
  figure.append(words, image);
  return figure;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${value.toFixed(value < 10 && at ? 1 : 0)} ${units[at]}`;
}
