/* A person's actions: buttons for moves and programs, and places to click on the board. */

const DIRECTIONS = ["up", "down", "left", "right"];
const SIPHON_ACTION = 4;

/** A button for an action. It stays focusable when the action is illegal, and says why. */
function actionButton(action, about, reason, act, ...children) {
  const words = [about.name, about.does || "", reason ? `not now: ${reason}` : ""];
  return element("button", {
    type: "button",
    class: `action ${reason ? "off" : ""}`,
    "aria-disabled": String(Boolean(reason)),
    "aria-label": words.filter(Boolean).join(", "),
    "aria-keyshortcuts": about.key,
    title: reason || about.does || about.name,
    "data-action": action,
    onclick: () => act(action),
  }, element("kbd", { "aria-hidden": "true" }, about.key), ...children);
}

function cost(about) {
  const parts = [];
  if (about.credits) parts.push(element("span", { class: "credits" }, `${about.credits} cr`));
  if (about.energy) parts.push(element("span", { class: "energy" }, `${about.energy} en`));
  return element("span", { class: "cost" }, ...parts);
}

/** Shows the actions of a position; `act(action)` plays one. */
function showActions(data, moment, act) {
  const focused = document.activeElement && document.activeElement.dataset.action;
  const over = moment.end ? "the game is over" : null;
  const why = (action) => over || moment.why[action];
  const simple = (action) => {
    const button = actionButton(action, data.actions[action], why(action), act,
      element("span", {}, data.actions[action].name));
    button.classList.add(action === SIPHON_ACTION ? "siphon" : DIRECTIONS[action]);
    return button;
  };
  find("pad").replaceChildren(...[0, 2, 4, 3, 1].map(simple));

  const owned = new Set(moment.owned);
  const program = (action) => {
    const about = data.actions[action];
    return actionButton(action, about, why(action), act,
      element("b", {}, about.name), cost(about),
      element("small", {}, why(action) || about.does));
  };
  find("programs").replaceChildren(...(owned.size ? moment.owned.map(program)
    : [element("p", { class: "quiet" }, "No programs yet: siphon a block that holds one.")]));

  const missing = data.actions.map((about, action) => [action, about])
    .filter(([action]) => action > SIPHON_ACTION && !owned.has(action));
  find("missing-title").textContent = `${missing.length} programs that you do not own`;
  find("missing").replaceChildren(...missing.map(([, about]) =>
    element("li", {}, element("b", {}, about.name), " ", cost(about), ` ${about.does}`)));
  if (focused) document.querySelector(`button[data-action="${focused}"]`)?.focus();
}

/** Places to click: a cell in the player's row or column moves that way, the player siphons. */
function showPlaces(data, moment, act) {
  for (const old of find("board").querySelectorAll(".place")) old.remove();
  if (moment.end) return;
  const { width, height } = data.board;
  const size = Math.sqrt(data.places.length);
  const row = Math.floor(moment.facts.cell / size), column = moment.facts.cell % size;
  data.places.forEach(([x, y, side], cell) => {
    const up = Math.floor(cell / size) - row, right = (cell % size) - column;
    if (up !== 0 && right !== 0) return;
    const action = up > 0 ? 0 : up < 0 ? 1 : right < 0 ? 2 : right > 0 ? 3 : SIPHON_ACTION;
    const why = moment.why[action];
    // The buttons beside the board do the same by keyboard.
    const place = element("button", {
      type: "button", tabIndex: -1, class: "place", title: why || data.actions[action].name,
      "aria-hidden": "true", "data-cell": cell, onclick: () => act(action),
    });
    Object.assign(place.style, {
      left: `${(100 * x) / width}%`, top: `${(100 * y) / height}%`,
      width: `${(100 * side) / width}%`, height: `${(100 * side) / height}%`,
    });
    find("board").append(place);
  });
}
