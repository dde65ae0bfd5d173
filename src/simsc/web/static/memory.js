// What the browser keeps over a reload: a few records by name, files among them. Where it may not keep anything, nothing is.

const [DATABASE, STORE] = ["simsc", "kept"];
let opened = null;

export async function keep(name, value) {
  await inStore("readwrite", (store) => store.put(value, name)).catch(() => undefined);
}

export function recall(name) {
  return inStore("readonly", (store) => store.get(name)).catch(() => undefined);
}

export async function forgetAll() {
  await inStore("readwrite", (store) => store.clear()).catch(() => undefined);
}

async function inStore(mode, task) {
  opened ??= settled(openDatabase());
  return settled(task((await opened).transaction(STORE, mode).objectStore(STORE)));
}

function openDatabase() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  return request;
}

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
