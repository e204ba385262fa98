// Light or dark: as the system has it, or as the switch says. The page's style follows `data-theme`.

const THEMES = ["light", "dark"];

function themed(name) {
  const theme = THEMES.includes(name) ? name : "";
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  document.querySelectorAll("select.theme").forEach((choice) => { choice.value = theme; });
}

document.querySelectorAll("select.theme").forEach((choice) => choice.addEventListener("change", () => themed(choice.value)));
