// The editor of a sweep file: it is checked as one writes, its lines are numbered, and a problem marks its own.
// Without this, "Show the plan" checks it.
"use strict";

const form = document.querySelector(".editing");
const editor = form.querySelector("textarea");
const frame = form.querySelector(".editor");
const gutter = form.querySelector(".gutter");
const checked = form.querySelector("[data-checked]");
const told = form.querySelector("[data-told]");
const draft = "headcount.draft";
const patienceInWriting = 400; // ms after the last key

let checking = null; // the request that is under way
let waiting = null;
let lines = 0;

function number() {
  const count = editor.value.split("\n").length;
  if (count !== lines) gutter.textContent = Array.from({ length: count }, (_, i) => `${i + 1}\n`).join("");
  lines = count;
  mark(false);
  gutter.scrollTop = editor.scrollTop;
}

function mark(wrong, line) {
  if (wrong) editor.setAttribute("aria-invalid", "true");
  else editor.removeAttribute("aria-invalid");
  frame.toggleAttribute("data-line", Boolean(line));
  frame.style.setProperty("--line", line ?? 0);
}

function say(html) {
  checked.innerHTML = html; // written by the service, which escapes what users write
  const trouble = checked.querySelector(".trouble");
  const line = trouble?.dataset.line ? Number(trouble.dataset.line) : null;
  mark(Boolean(trouble), line);
  editor.setAttribute("aria-describedby", trouble ? "keys problem" : "keys");
  told.textContent = (trouble ?? checked.querySelector(".sentence"))?.textContent.replace(/\s+/g, " ").trim() ?? "";
  return !trouble;
}

// whether the file can be submitted; null where a newer check has taken over, or none could be had
async function check() {
  clearTimeout(waiting);
  checking?.abort();
  checking = new AbortController();
  try {
    const body = new URLSearchParams({ text: editor.value, do: "check" });
    const answer = await fetch(form.action, { method: "POST", body, signal: checking.signal });
    if (answer.ok && !answer.redirected) return say(await answer.text());
    const why = answer.redirected ? "Your login has ended: log in again, and the file will still be here." : "The service did not check it.";
    return explain(why, answer.redirected ? answer.url : null);
  } catch (error) {
    return error.name === "AbortError" ? null : explain("The service does not answer.", null);
  }
}

function explain(words, address) {
  const line = document.createElement("p");
  line.append(words);
  if (address) line.append(" ", Object.assign(document.createElement("a"), { href: address, textContent: "Log in" }));
  checked.replaceChildren(line);
  told.textContent = words;
  return null;
}

function goTo(line) {
  const rows = editor.value.split("\n");
  const start = rows.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  editor.focus();
  editor.setSelectionRange(start, start + rows[line - 1].length);
  editor.scrollTop = Math.max(0, (line - 5) * parseFloat(getComputedStyle(editor).lineHeight));
}

editor.addEventListener("input", () => {
  number();
  stored("sessionStorage", draft, editor.value);
  clearTimeout(waiting);
  waiting = setTimeout(check, patienceInWriting);
});
editor.addEventListener("scroll", () => {
  gutter.scrollTop = editor.scrollTop;
  frame.style.setProperty("--scroll", `${editor.scrollTop}px`);
});
editor.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(form.querySelector(".primary"));
});
checked.addEventListener("click", (event) => {
  const button = event.target.closest("[data-goto]");
  if (button) goTo(Number(button.dataset.goto));
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fine = await check();
  if (event.submitter?.value === "plan") return;
  if (fine === false) return checked.querySelector("[data-goto]")?.focus();
  if (fine === null) return;
  stored("sessionStorage", draft, null);
  form.submit();
});

const kept = stored("sessionStorage", draft);
if (kept && !location.search && !checked.querySelector(".trouble")) editor.value = kept;
number();
if (!editor.form.querySelector(".primary").disabled) check();
