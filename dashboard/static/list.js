// The list of sweeps follows its search box as one types; without this, Enter does.
"use strict";

const patience = 250; // ms after the last key

let searching = null;

function search(form) {
  const query = new URLSearchParams(new FormData(form));
  const sort = form.querySelector("[name=sort]");
  query.set("sort", sort.value); // shown on narrow pages alone, sent from all
  history.replaceState(null, "", `?${query}`);
  return refresh();
}

document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-search]")) return;
  clearTimeout(searching);
  searching = setTimeout(() => search(event.target.form), patience);
});
