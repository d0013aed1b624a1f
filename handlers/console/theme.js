// The theme, set before the page is painted so that it never flashes in the other one: what
// the reader chose here, else what the system prefers.
"use strict";
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try { chosen = localStorage.getItem("pushsink-theme"); } catch { /* storage is off */ }
    document.documentElement.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : system.matches ? "dark" : "light";
  };
  apply();
  system.addEventListener("change", apply);
})();
