// Animated episodes: each can be stopped, and none moves by itself for a reader who prefers less motion.

function stillable(figure) {
  const image = figure.querySelector("img");
  const still = make("canvas", { role: "img", "aria-label": image.alt, hidden: true });
  const button = make("button", { type: "button", onclick: () => turn(image.hidden) });
  let asked = 0;
  const turn = async (moving) => {
    const number = ++asked;
    button.textContent = moving ? "Stop" : "Play";
    button.setAttribute("aria-label", `${button.textContent}: ${image.alt}`);
    if (!moving) {
      try {
        await image.decode();
      } catch {
        return; // a damaged picture: its text stands in its place
      }
      if (number !== asked) return;
      [still.width, still.height] = [image.naturalWidth, image.naturalHeight];
      still.getContext("2d").drawImage(image, 0, 0);
    }
    image.hidden = !moving;
    still.hidden = moving;
  };
  image.after(still, button);
  turn(!matchMedia("(prefers-reduced-motion: reduce)").matches);
}

document.querySelectorAll("figure.animation").forEach(stillable);
