/* The viewer: shows one position at a time, with playback, steps and jumps. */

const SPEEDS = [0.5, 1, 2, 4, 8, 16];

/**
 * Shows a game.
 * @param data the game: moments, shapes, actions, board.
 * @param hooks of a live page: `beyond()` requests a move after the last one and returns whether
 *   there may be another; `shown(index)` is called for each shown position; `empty(index)` is the
 *   text for a position without opinions; `seen` names the view without hidden things.
 */
function makeViewer(data, hooks = {}) {
  const view = {
    data, at: 0, everything: true, playing: false, returns: [],
    last: () => data.moments.length - 1,
  };
  const timeline = makeTimeline(find("timeline"), find("legend"), (index) => view.show(index));
  let timer = null, speed = 2;

  view.show = (index, { quiet = view.playing } = {}) => {
    view.at = Math.min(Math.max(0, index), view.last());
    const moment = data.moments[view.at];
    const following = data.moments[view.at + 1];
    paint(moment);
    find("facts-panel").hidden = !moment.facts;
    if (moment.facts) showFacts(find("facts"), moment, data.actions);
    showMove(find("move"), find("move-title"), moment, view.at, view.returns[view.at],
      data.actions);
    showThoughts(find("thoughts"), moment, following ? following.action : null, data.actions,
      hooks.empty ? hooks.empty(view.at) : "No agent was asked about this position.");
    find("place").textContent = `${view.at} / ${view.last()}`;
    find("scrubber").value = view.at;
    find("scrubber").setAttribute("aria-valuetext", `move ${view.at} of ${view.last()}`);
    find("end").hidden = !moment.end;
    find("end").textContent = moment.end ? ENDS[moment.end] : "";
    find("end").dataset.end = moment.end || "";
    timeline.mark(view.at);
    if (!quiet) say(moment);
    if (hooks.shown) hooks.shown(view.at);
  };

  function paint(moment) {
    const picture = (view.everything ? null : moment.seen) || moment.all;
    find("picture").innerHTML = picture.shapes.map((each) => data.shapes[each]).join("");
    find("picture").setAttribute("aria-label", picture.words);
  }

  function say(moment) {
    const name = moment.action === null ? "start" : data.actions[moment.action].name;
    const worth = moment.action === null ? ""
      : `, reward ${number(moment.reward, { sign: true })}`;
    find("said").textContent =
      `Move ${view.at}: ${name}${worth}. ${moment.end ? ENDS[moment.end] : ""}`;
  }

  /** Updates the page after a change of `data`: more moves, other opinions, another game. */
  view.refresh = () => {
    fit();
    let sum = 0;
    view.returns = data.moments.map((moment) => {
      if (typeof moment.reward === "number") sum += moment.reward;
      return sum;
    });
    find("scrubber").max = view.last();
    timeline.show(data.moments, view.returns);
  };

  view.step = (by) => { view.pause(); view.show(view.at + by); };

  view.pause = () => {
    clearTimeout(timer);
    view.playing = false;
    const button = find("play");
    button.textContent = "\u25b6";
    button.setAttribute("aria-label", "Play");
  };

  view.play = () => {
    if (view.at >= view.last() && !hooks.beyond) view.show(0);
    view.playing = true;
    const button = find("play");
    button.textContent = "\u275a\u275a";
    button.setAttribute("aria-label", "Pause");
    timer = setTimeout(tick, 200);
  };

  async function tick() {
    const started = performance.now();
    if (view.at < view.last()) view.show(view.at + 1);
    else if (!(hooks.beyond && await hooks.beyond())) view.pause();
    if (!view.playing) return;
    if (view.at >= view.last() && !hooks.beyond) { view.pause(); return; }
    timer = setTimeout(tick, Math.max(0, 1000 / speed - (performance.now() - started)));
  }

  view.toggle = () => (view.playing ? view.pause() : view.play());

  view.setSpeed = (wanted) => {
    speed = SPEEDS.includes(wanted) ? wanted : 2;
    find("speed").value = String(speed);
  };
  view.faster = (by) => {
    const index = SPEEDS.indexOf(speed) + by;
    view.setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, index))]);
  };

  view.setEverything = (everything) => {
    view.everything = everything;
    const button = find("view");
    button.textContent = `View: ${everything ? "everything" : hooks.seen || "what the agent sees"}`;
    button.setAttribute("aria-pressed", String(!everything));
    paint(data.moments[view.at]);
  };

  function fit() {
    const { width, height } = data.board;
    find("picture").setAttribute("viewBox", `0 0 ${width} ${height}`);
    document.documentElement.style.setProperty("--aspect", String(width / height));
  }

  function connect() {
    find("speed").append(...SPEEDS.map((each) =>
      element("option", { value: String(each) }, `${each}/s`)));
    find("first").onclick = () => { view.pause(); view.show(0); };
    find("last").onclick = () => { view.pause(); view.show(view.last()); };
    find("back").onclick = () => view.step(-1);
    find("next").onclick = () => view.forward();
    find("play").onclick = view.toggle;
    find("scrubber").oninput = (event) => { view.pause(); view.show(Number(event.target.value)); };
    find("speed").onchange = (event) => view.setSpeed(Number(event.target.value));
    find("view").onclick = () => view.setEverything(!view.everything);
    find("theme").onclick = changeTheme;
    find("help").onclick = () => find("keys").showModal();
  }

  /** Shows the next move; at the end of a live game it requests one. */
  view.forward = () => {
    view.pause();
    if (view.at >= view.last() && hooks.beyond) hooks.beyond();
    else view.show(view.at + 1);
  };

  connect();
  view.setSpeed(2);
  view.refresh();
  return view;
}

/** Connects the keys of every page; `more(event)` may handle a key first. */
function connectKeys(view, more = () => false) {
  const keys = {
    " ": view.toggle,
    "ArrowLeft": () => view.step(-1),
    "ArrowRight": () => view.forward(),
    ",": () => view.step(-1),
    ".": () => view.forward(),
    "Home": () => { view.pause(); view.show(0); },
    "End": () => { view.pause(); view.show(view.last()); },
    "+": () => view.faster(1),
    "=": () => view.faster(1),
    "-": () => view.faster(-1),
    "0": () => view.setEverything(!view.everything),
    "?": () => find("keys").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || find("keys").open) return;
    const target = event.target.closest("input, select, textarea, button, summary, a");
    // A focused input handles its keys itself.
    if (target && target.matches("input, select, textarea")) return;
    if (target && (event.key === " " || event.key === "Enter")) return;
    if (more(event)) { event.preventDefault(); return; }
    if (Object.hasOwn(keys, event.key)) { keys[event.key](); event.preventDefault(); }
  });
}

/** Fills the list of keys from pairs of keys and their function. */
function listKeys(pairs) {
  find("key-list").replaceChildren(...pairs.flatMap(([names, does]) => [
    element("dt", {}, ...names.map((name) => element("kbd", {}, name))),
    element("dd", {}, does),
  ]));
}

const VIEWER_KEYS = [
  [["space"], "play or pause"],
  [["Home"], "first position"],
  [["End"], "last position"],
  [["+", "\u2212"], "faster, slower"],
  [["0"], "everything, or what the agent sees"],
  [["?"], "these keys"],
];
