/* The board of the clique game: vertices on a circle, edges to tap. */

const SIZE = 600, RADIUS = 256, VERTEX = 21;
/** The largest distance of a tap from a vertex or an edge, in the picture's units. */
const NEAR_VERTEX = 36, NEAR_EDGE = 30;
const LISTED = 5;
const SEAT_WORDS = { first: "blue, and begin", second: "orange", both: "both colours" };
const PLAYERS = ["first", "second"];

/** The distance of a point from the line between two others. */
function distance(point, from, to) {
  const [x, y] = [to.x - from.x, to.y - from.y];
  const along = ((point.x - from.x) * x + (point.y - from.y) * y) / (x * x + y * y);
  const at = Math.min(1, Math.max(0, along));
  return Math.hypot(point.x - from.x - at * x, point.y - from.y - at * y);
}

/** A value in a word, for the player to move. */
const worth = (value) => value >= 0.9 ? "winning" : value >= 0.25 ? "better"
  : value > -0.25 ? "even" : value > -0.9 ? "worse" : "losing";

(async () => {
  const data = JSON.parse(find("data").textContent);
  const notice = lineIn("busy"), message = lineIn("message");
  const server = makeServer(notice);
  const shown = { thinking: false, hint: null, chosen: null, near: null };
  let state = null;

  const turn = (index) => 2 * Math.PI * index / data.vertices - Math.PI / 2;
  const places = Array.from({ length: data.vertices }, (_, index) => ({
    x: SIZE / 2 + RADIUS * Math.cos(turn(index)), y: SIZE / 2 + RADIUS * Math.sin(turn(index)),
  }));
  const actions = data.edges.map(([one, other]) => ({ name: `${one}\u2013${other}` }));
  const edgeOf = (one, other) => data.edges.findIndex(([low, high]) =>
    low === Math.min(one, other) && high === Math.max(one, other));
  const picture = find("picture");

  /* The server. */

  /** Sends a request at the latest position; shows a refusal as a line. */
  async function ask(path, body = {}) {
    message("");
    try {
      take(await server.ask(path, body));
      return true;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      // Another window may have moved.
      try { take(await server.ask("/state", {})); } catch (again) {
        if (!(again instanceof Refused)) throw again;
      }
      message(error.message);
      return false;
    }
  }

  const position = (answer) => JSON.stringify([answer.game, answer.simulations, answer.moves]);

  function take(answer) {
    if (state && position(state) === position(answer)) answer.thought ||= state.thought;
    else Object.assign(shown, { hint: null, chosen: null, near: null });
    state = answer;
    paint();
  }

  const at = (more = {}) => ({ number: state.moves.length, ...more });

  /** Lets the network move if it is its turn, and think if its thoughts are shown. */
  async function go(done) {
    while (done && !state.over && !state.yours) done = await ask("/reply", at());
    if (done && shown.thinking && !state.over && !state.thought) await ask("/think", at());
  }

  async function play(edge) {
    if (server.busy || state.over || !state.yours) return;
    await go(await ask("/play", at({ action: edge })));
  }

  async function hint() {
    if (server.busy || state.over) return;
    if (state.thought || await ask("/think", at())) shown.hint = state.thought.action;
    paint();
  }

  function takeBack() {
    if (!server.busy) ask("/take-back", at()).then(go);
  }

  function think() {
    shown.thinking = !shown.thinking;
    paint();
    if (!server.busy) go(true);
  }

  const begin = () => ask("/new", { seat: find("seat").value }).then(go);

  /* Taps and pointer moves. */

  function pointed(event) {
    const point = new DOMPoint(event.clientX, event.clientY);
    return point.matrixTransform(picture.getScreenCTM().inverse());
  }

  const isFree = (edge) => !state.moves.includes(edge);

  function vertexAt(point) {
    const index = places.findIndex((place) =>
      Math.hypot(place.x - point.x, place.y - point.y) <= NEAR_VERTEX);
    return index < 0 ? null : index;
  }

  /** The nearest free edge; `null` if none is near. */
  function edgeAt(point) {
    let found = null, least = NEAR_EDGE;
    data.edges.forEach(([one, other], edge) => {
      const far = isFree(edge) ? distance(point, places[one], places[other]) : Infinity;
      if (far < least) [found, least] = [edge, far];
    });
    return found;
  }

  /** Plays the edge between the chosen vertex and this one, or chooses this vertex. */
  function choose(vertex) {
    const before = shown.chosen;
    shown.chosen = before === null ? vertex : null;
    paint();
    if (before === null || before === vertex) return;
    const edge = edgeOf(before, vertex);
    if (isFree(edge)) play(edge);
    else message(`Edge ${actions[edge].name} has a colour already.`);
  }

  function tapped(event) {
    if (!state || state.over || !state.yours || server.busy) return;
    const point = pointed(event), vertex = vertexAt(point);
    if (vertex !== null) { choose(vertex); return; }
    const edge = edgeAt(point);
    shown.chosen = null;
    if (edge === null) paint();
    else play(edge);
  }

  function moved(event) {
    if (!state || state.over || event.pointerType === "touch") return;
    const point = pointed(event);
    const near = vertexAt(point) === null ? edgeAt(point) : null;
    if (near !== shown.near) { shown.near = near; paint(); }
  }

  /* The picture. */

  function line(edge, kind, more = {}) {
    const [one, other] = data.edges[edge].map((vertex) => places[vertex]);
    return drawn("line", { class: `edge ${kind}`, x1: one.x, y1: one.y, x2: other.x, y2: other.y,
      ...more });
  }

  function paint() {
    const chances = new Map(state.thought ? state.thought.probabilities : []);
    const inside = (edge) => data.edges[edge].every((vertex) => state.clique.includes(vertex));
    const free = data.edges.map((_, edge) => edge).filter(isFree).map((edge) => {
      if (!shown.thinking || !chances.has(edge)) return line(edge, "free", { "data-edge": edge });
      const share = Math.sqrt(chances.get(edge));
      const made = line(edge, "free thought", { "data-edge": edge });
      made.style.strokeWidth = String(1.5 + 8 * share);
      made.style.strokeOpacity = String(0.25 + 0.7 * share);
      return made;
    });
    const owner = (number) => number % 2;
    const last = state.moves.length - 1;
    const coloured = state.moves.map((edge, number) => {
      const clique = owner(number) === owner(last) && inside(edge) ? " clique" : "";
      return line(edge, `${PLAYERS[owner(number)]}${clique}`, { "data-edge": edge });
    });
    const halo = last < 0 || state.clique.length ? []
      : [line(state.moves[last], `${PLAYERS[owner(last)]} last`)];
    const over = [
      ...(shown.hint === null ? [] : [line(shown.hint, "hinted")]),
      ...(shown.near === null ? [] : [line(shown.near, "near")]),
    ];
    const focused = document.activeElement && document.activeElement.dataset.vertex;
    picture.replaceChildren(...free, ...halo, ...coloured, ...over, ...places.map(vertex));
    if (focused !== undefined) picture.querySelector(`[data-vertex="${focused}"]`).focus();
    picture.setAttribute("class", state.over ? `over closed${state.clique.length ? "" : " full"}`
      : state.yours ? "" : "closed");
    picture.style.setProperty("--owner", `var(--${PLAYERS[owner(Math.max(0, last))]})`);
    words(chances);
  }

  function vertex(place, index) {
    const kind = shown.chosen === index ? " chosen" : state.clique.includes(index) ? " clique" : "";
    const group = drawn("g", { class: `vertex${kind}`, "data-vertex": index, tabindex: 0,
      role: "button", "aria-label": `vertex ${index}`, "aria-pressed": shown.chosen === index });
    group.append(drawn("circle", { cx: place.x, cy: place.y, r: VERTEX }),
      drawn("text", { x: place.x, y: place.y }, String(index)));
    group.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      if (state.yours && !server.busy) choose(index);
    };
    return group;
  }

  function words(chances) {
    find("words").textContent = state.words;
    const near = shown.near === null ? shown.hint : shown.near;
    const chance = shown.thinking && chances.has(near) ? `: ${percent(chances.get(near))}` : "";
    const kind = near !== null && near === shown.hint ? "Hint: edge" : "Edge";
    find("hovered").textContent = near !== null ? `${kind} ${actions[near].name}${chance}`
      : shown.chosen !== null ? `From vertex ${shown.chosen} to \u2026` : "";
    find("seat").value = state.seat;
    find("strength").value = String(state.simulations);
    find("back").disabled = !state.moves.some((_, number) =>
      state.seat === "both" || PLAYERS[number % 2] === state.seat);
    find("hint").disabled = state.over || !state.yours;
    find("thinking").setAttribute("aria-pressed", String(shown.thinking));
    find("thoughts-panel").hidden = !shown.thinking;
    showFactsOf();
    showThought();
  }

  function showFactsOf() {
    const fact = (name, value) => element("li", {}, element("span", { class: "name" }, name), value);
    const sample = (kind) => {
      const svg = drawn("svg", { viewBox: "0 0 64 14", "aria-hidden": "true" });
      svg.append(drawn("line", { class: `edge ${kind}`, x1: 4, x2: 60, y1: 7, y2: 7 }));
      return svg;
    };
    const who = (player) => state.seat === "both" ? "" : state.seat === player ? ": you"
      : ": network";
    find("facts").replaceChildren(
      fact("edges", element("b", { id: "count" }, `${state.moves.length} of ${data.edges.length}`)),
      ...PLAYERS.map((player, index) =>
        fact(`${data.colours[index]}${who(player)}`, sample(player))));
  }

  function showThought() {
    const { thought, moves, over } = state;
    if (!thought) {
      find("thoughts").replaceChildren(
        element("p", { class: "quiet" }, over ? "The game is over." : "\u2026"));
      return;
    }
    const mover = moves.length % 2, parts = [];
    if (thought.value !== null) {
      const blue = (1 + (mover === 0 ? thought.value : -thought.value)) / 2;
      const [left, right] = [element("i"), element("i")];
      left.style.width = `${100 * blue}%`;
      const said = `${data.colours[mover]} to move: ${worth(thought.value)}`;
      parts.push(
        element("p", { class: "worth", id: "worth" }, `${said} `,
          element("b", {}, number(thought.value, { sign: true }))),
        element("div", { class: "balance", role: "img",
          "aria-label": `blue ${percent(blue)}, orange ${percent(1 - blue)}` }, left, right));
    }
    const likely = thought.probabilities.slice(0, LISTED).map(([edge]) => edge);
    const kept = (pairs) =>
      (pairs || []).filter(([edge]) => likely.includes(edge) || edge === thought.action);
    const { probabilities, values, visits } = thought;
    parts.push(bars({ ...thought, probabilities: kept(probabilities), values: kept(values),
      visits: kept(visits) }, null, actions));
    find("thoughts").replaceChildren(...parts);
  }

  /* The start. */

  function connect() {
    picture.setAttribute("viewBox", `0 0 ${SIZE} ${SIZE}`);
    picture.onclick = tapped;
    picture.onpointermove = moved;
    picture.onpointerleave = () => {
      if (state && shown.near !== null) { shown.near = null; paint(); }
    };
    find("player").textContent = data.name.split("/").filter(Boolean).pop();
    find("player").title = data.name;
    find("rules").textContent = data.rules;
    find("seat").append(...Object.entries(SEAT_WORDS).map(([value, text]) =>
      element("option", { value }, text)));
    find("strength").append(...data.budgets.map((each) => element("option", { value: String(each) },
      (each ? `${number(each)} simulations` : "none: it moves at once")
        + (each === data.budget ? " (its default)" : ""))));
    find("seat").onchange = begin;
    find("new").onclick = begin;
    find("back").onclick = takeBack;
    find("hint").onclick = hint;
    find("thinking").onclick = think;
    find("strength").onchange = () =>
      ask("/strength", { simulations: Number(find("strength").value) }).then(go);
    find("theme").onclick = changeTheme;
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
      const keys = { u: takeBack, h: hint, p: think };
      if (Object.hasOwn(keys, event.key)) keys[event.key]();
    });
  }

  notice("Starting \u2026");
  connect();
  if (await ask("/state")) go(true);
})();
