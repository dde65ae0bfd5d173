// The API, written out from its own description.
const description = await (await fetch("/openapi.json")).json();

for (const [path, methods] of Object.entries(description.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    document.getElementById("paths").append(article(path, method, operation));
  }
}

function article(path, method, operation) {
  const box = document.createElement("article");
  const title = element("code", "");
  title.append(element("span", method.toUpperCase(), "method"), path);
  box.append(title, element("p", operation.description ?? operation.summary));
  const fields = Object.entries(requestFields(operation));
  if (fields.length) {
    const list = document.createElement("dl");
    for (const [name, field] of fields) list.append(element("dt", name), element("dd", field.description ?? field.type ?? ""));
    box.append(list);
  }
  return box;
}

function requestFields(operation) {
  const content = Object.values(operation.requestBody?.content ?? {})[0];
  const name = content?.schema?.$ref?.split("/").at(-1);
  const body = name ? description.components.schemas[name].properties : {};
  const inPath = Object.fromEntries((operation.parameters ?? []).map((each) => [each.name, each.schema ?? {}]));
  return { ...inPath, ...body };
}

function element(kind, text, name = "") {
  const made = document.createElement(kind);
  made.textContent = text.replaceAll("`", "");
  made.className = name;
  return made;
}
