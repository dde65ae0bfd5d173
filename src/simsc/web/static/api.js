// Requests to the server, and nowhere else.

export class Problem extends Error {
  constructor(detail, code) {
    super(detail);
    this.code = code;
  }
}

export async function getJson(path) {
  return (await request(path)).json();
}

export async function postJson(path, body) {
  return (await post(path, body)).json();
}

export async function postForBlob(path, body) {
  return (await post(path, body)).blob();
}

export async function uploadImage(file) {
  const form = new FormData();
  form.append("file", file, file.name || "image");
  return (await request("/api/images", { method: "POST", body: form })).json();
}

export function encodeImage(id, model) {
  return request(`/api/images/${id}/encode?model=${encodeURIComponent(model)}`, { method: "POST" });
}

export function forgetImage(id) {
  return fetch(`/api/images/${id}`, { method: "DELETE" }).catch(() => undefined);
}

function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body ?? {}) });
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Problem("The server does not answer. Is it still running?", "offline");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Problem(said.detail ?? `The server answered ${response.status}.`, said.code ?? "unknown");
}
