// Calls to our own server. An error carries the server's sentence, which says what to do.

async function answer(response) {
  const body = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw new Error(body.error ?? `the server answered ${response.status}`);
  return body;
}

export async function get(path) {
  return answer(await fetch(path));
}

export async function post(path, body, signal) {
  return answer(await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal }));
}

export function element(tag, properties = {}, ...children) {
  const { dataset, ...rest } = properties;
  const node = Object.assign(document.createElement(tag), rest);
  Object.assign(node.dataset, dataset ?? {});
  node.append(...children);
  return node;
}
