// Elements and texts. Whatever comes from a record or a file goes in as text, never as markup.

// el makes an element: el("p", {class: "sub", text: "…"}, child, …).
export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") e.textContent = value;
    else if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

export const byId = (id) => document.getElementById(id);

// setText changes a text only where it differs, so that a selection in it survives.
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// copyButton copies what text() gives.
export function copyButton(text, label = "Copy") {
  const b = el("button", { type: "button", class: "quiet", text: label });
  onCopy(b, text);
  return b;
}

export function onCopy(button, text) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  });
}

// pill is a state with its dot.
export function pill(state, text) {
  return el("span", { class: "pill", "data-state": state }, el("i", { "aria-hidden": "true" }), el("span", { text }));
}
