// What a page needs besides htmx: a slider's number, keys, and the copy buttons.
document.addEventListener("input", (event) => {
  const own = event.target;
  if (own.dataset.for) {
    document.getElementById(own.dataset.for).value = own.value;
  } else if (own.previousElementSibling?.dataset.for === own.id) {
    // An empty field is the default, and a decimal comma a point.
    const number = Number((own.value || own.placeholder).replace(",", "."));
    if (!isNaN(number)) own.previousElementSibling.value = number;
  }
}, true);

document.addEventListener("click", async (event) => {
  const { step, copy } = event.target.dataset;
  if (step) {
    const field = document.getElementById(step);
    field.value = String(BigInt(field.value || 0) + 1n);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (copy) {
    const field = document.getElementById(copy);
    field.select();
    await navigator.clipboard?.writeText(field.value);
    event.target.textContent = "copied";
  }
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox], [type=range]), select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  document.querySelector(`[data-key="${CSS.escape(event.key)}"]:is(button)`)?.click();
});

// The server names the field that an error is about, and the message goes there.
function placeProblems() {
  for (const field of document.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
  for (const note of document.querySelectorAll("#state .note")) note.remove();
  for (const note of document.querySelectorAll("#problem [data-field]")) {
    const field = document.getElementById(note.dataset.field);
    if (!field) continue;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-errormessage", note.id);
    // A closed panel would hide the message.
    const place = field.closest(".field");
    if (place?.checkVisibility()) place.append(note);
  }
}
document.addEventListener("htmx:afterSwap", placeProblems);
placeProblems();

function say(text) {
  document.getElementById("ended")?.remove();
  const bar = document.createElement("p");
  bar.id = "ended";
  bar.setAttribute("role", "alert");
  bar.textContent = text;
  document.body.prepend(bar);
}
document.addEventListener("htmx:responseError", (event) => say(event.detail.xhr.responseText));
// Without a server, controls would change nothing, and the counts would look as if they were theirs.
document.addEventListener("htmx:sendError", () => {
  say("The server has ended. What you see is from before.");
  for (const control of document.querySelectorAll("input, select, button:not([data-copy])")) {
    control.disabled = true;
  }
});

if (innerWidth < 900) document.querySelector(".panel")?.removeAttribute("open");
