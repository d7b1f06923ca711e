// Keeps an open page current: on a change event from the server, the page is fetched again, and
// differences are merged in place, so that focus, open parts and half-filled forms stay.

const section = document.body.dataset.live;
const content = document.getElementById("content");
const announce = document.getElementById("announce");
const offline = document.getElementById("offline");

let source = null;
let fetching = false;
let again = false;

/// Pairs the elements of two lists: by id, else by position.
function pair(from, to) {
  const byId = new Map();
  for (const node of from) if (node.id) byId.set(node.id, node);
  const free = from.filter((node) => !node.id);
  return to.map((node) => {
    const own = node.id ? byId.get(node.id) : undefined;
    if (node.id) return own?.nodeName === node.nodeName ? own : undefined;
    const at = free.findIndex((known) => known.nodeName === node.nodeName);
    return at < 0 ? undefined : free.splice(0, at + 1)[at];
  });
}

function attributes(from, to) {
  for (const { name } of [...from.attributes]) {
    // Whether a part is open is up to the user.
    if (name === "open" && from.nodeName === "DETAILS" && from.id) continue;
    if (!to.hasAttribute(name)) from.removeAttribute(name);
  }
  for (const { name, value } of [...to.attributes]) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  if (from.nodeName === "PROGRESS" && from.value !== to.value && to.hasAttribute("value")) from.value = to.value;
}

/// Merges an element into another one.
function merge(from, to) {
  if (from.isEqualNode(to)) return;
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  attributes(from, to);
  const wanted = [...to.childNodes];
  const found = pair([...from.childNodes], wanted);
  // Removals first: then no remaining element has to be moved, and a moved element loses the focus.
  const kept = new Set(found);
  for (const child of [...from.childNodes]) if (!kept.has(child)) child.remove();
  let at = from.firstChild;
  wanted.forEach((node, index) => {
    const mine = found[index];
    if (!mine) {
      from.insertBefore(document.importNode(node, true), at);
      return;
    }
    if (mine === at) at = at.nextSibling;
    else from.insertBefore(mine, at);
    merge(mine, node);
  });
}

function said() {
  return new Map([...content.querySelectorAll("[data-announce]")].map((it, index) => [it.id || index, it.textContent.trim().replace(/\s+/g, " ")]));
}

async function refresh() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  try {
    // The connection may be lost; the event stream reconnects.
    const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
    if (!answer) return;
    if (answer.redirected) {
      // Signed out: go to the sign-in page.
      location.reload();
      return;
    }
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
      if (fresh) {
        const before = said();
        const focused = document.activeElement;
        merge(content, fresh);
        if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
        for (const [key, text] of said()) {
          if (before.has(key) && before.get(key) !== text) announce.textContent = text;
        }
      }
    }
  } finally {
    fetching = false;
    if (again) {
      again = false;
      refresh();
    }
  }
}

function follow() {
  if (source) return;
  source = new EventSource(`/live?page=${encodeURIComponent(section)}`);
  source.addEventListener("open", () => {
    offline.hidden = true;
    refresh();
  });
  source.addEventListener("changed", refresh);
  source.addEventListener("error", () => {
    offline.hidden = false;
    // A browser gives up after an error response; reconnect.
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(() => { if (!document.hidden) follow(); }, 3000);
    }
  });
}

function rest() {
  if (source) source.close();
  source = null;
}

// A hidden page needs no events: browsers allow few connections.
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
window.addEventListener("pagehide", rest);
if (section && content && !document.hidden) follow();

// Actions that cannot be reverted at once ask for confirmation.
document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});
