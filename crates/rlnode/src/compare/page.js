"use strict";
const sections = [...document.querySelectorAll("section")];
const selects = ["limit", "traffic"].map((name) => document.getElementById(name));
for (const select of selects) {
  for (const text of new Set(sections.map((section) => section.dataset[select.id]))) {
    select.add(new Option(text));
  }
  select.addEventListener("change", choose);
}
function choose() {
  const fits = (section) => selects.every((select) => section.dataset[select.id] === select.value);
  const chosen = sections.find(fits) || sections[0];
  sections.forEach((section) => section.classList.toggle("chosen", section === chosen));
}
document.body.classList.add("chosen");
document.querySelector("form").hidden = false;
choose();
