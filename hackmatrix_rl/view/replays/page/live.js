/* The live page: a person and an agent play one game; either may make each move. */

const LONGEST_REPLAY = 900_000;
const PLAYER_KEYS = { ArrowUp: 0, ArrowDown: 1, ArrowLeft: 2, ArrowRight: 3 };

/** The JSON object in a file, or `null`. */
async function readReplay(file) {
  if (file.size > LONGEST_REPLAY) return null;
  try {
    const replay = JSON.parse(await file.text());
    return typeof replay === "object" && !Array.isArray(replay) ? replay : null;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return null;
  }
}

async function startLive(page) {
  const data = { ...page, moments: [], shapes: [], game: null, agent: null };
  const state = { seat: "you", thinking: false };
  const notice = lineIn("busy"), message = lineIn("message");
  const server = makeServer(notice);
  let view = null;

  const have = () =>
    ({ game: data.game, moments: data.moments.length, shapes: data.shapes.length });

  /** Sends a request and takes in the news; shows a refusal as a line. */
  async function ask(path, body = {}) {
    message("");
    try {
      take(await server.ask(path, { have: have(), ...body }));
      return true;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (view) view.pause();
      message(error.message);
      return false;
    }
  }

  function take(answer) {
    if (answer.game !== data.game) {
      Object.assign(data, answer.rules, { game: answer.game, moments: [], shapes: [] });
    }
    data.moments.splice(answer.first, Infinity, ...answer.moments);
    data.shapes.splice(answer.from, Infinity, ...answer.shapes);
    for (const [index, name, opinion] of answer.opinions) {
      const moment = data.moments[index];
      if (moment) moment.opinions = { ...moment.opinions, [name]: opinion };
    }
    data.agent = answer.agent;
    const short = (data.agent || "Agent").split("/").filter(Boolean).pop();
    find("seat-agent").textContent = `${short} plays`;
    if (document.activeElement !== find("agent")) find("agent").value = data.agent || "";
    find("player").textContent = answer.seed;
    if (view) view.refresh();
  }

  const behind = () => view.at < view.last();
  const ended = () => data.moments[view.last()].end;

  /** A person's move. */
  async function act(action) {
    if (server.busy) return;
    if (behind()) {
      message("This is an earlier position. Enter continues from here, End goes to the latest move.");
      return;
    }
    const taken = state.seat === "you" ? ""
      : "You have taken over: it is your move. 2 hands back to the agent. ";
    if (taken) sit("you");
    const why = ended() ? "the game is over" : data.moments[view.at].why[action];
    if (why) {
      message(`${taken}${data.actions[action].name}: ${why}.`);
      return;
    }
    if (!await ask("/play", { number: view.last(), action })) return;
    view.show(view.last());
    if (!ended()) message(taken);
  }

  /** Plays the agent's move; returns whether it may play another. */
  async function beyond() {
    if (server.busy) return true;
    if (ended()) return false;
    if (state.seat !== "agent") {
      message("It is your move. 2 hands over to the agent.");
      return false;
    }
    if (!await ask("/agent-move", { number: view.last() })) return false;
    view.show(view.last());
    return !ended();
  }

  async function sit(seat) {
    if (seat === "agent" && !data.agent && !await useAgent("runner")) return;
    state.seat = seat;
    find("seat-you").setAttribute("aria-checked", String(seat === "you"));
    find("seat-agent").setAttribute("aria-checked", String(seat === "agent"));
    if (seat === "you") { view.pause(); return; }
    showThinking(true);
    if (!view.playing) view.play();
  }

  async function useAgent(name) {
    if (!name) {
      message("Name an agent: random, runner, a run or a checkpoint.");
      return false;
    }
    const done = await ask("/agent", { name });
    if (done) think();
    return done;
  }

  function showThinking(on) {
    state.thinking = on;
    find("thinking").setAttribute("aria-pressed", String(on));
    find("thoughts-panel").hidden = !on;
    if (on) think();
  }

  /** Requests the agent's opinion of the shown position, unless it is known. */
  async function think() {
    const index = view.at, moment = data.moments[index];
    if (!state.thinking || moment.end || server.busy || view.playing) return;
    if (!data.agent || (moment.opinions && moment.opinions[data.agent])) return;
    if (await ask("/think", { number: index })) {
      const said = find("message").textContent;
      view.show(view.at, { quiet: true });
      message(said);
    }
  }

  async function newGame() {
    const seed = seedGiven(message);
    if (seed === undefined) return;
    view.pause();
    if (await ask("/new", { seed })) fresh();
  }

  function fresh() {
    view.show(0);
    view.show(view.last());
    if (state.seat === "agent" && !ended()) view.play();
  }

  async function fromHere() {
    if (!behind()) return;
    view.pause();
    if (await ask("/branch", { number: view.at })) view.show(view.last());
  }

  async function open(file) {
    view.pause();
    const replay = await readReplay(file);
    if (!replay) {
      message(`${file.name}: this is not a replay.`);
      return;
    }
    const index = view.at, before = data.game;
    if (await ask("/open", { replay })) {
      sit("you");
      view.show(data.game === before ? index : 0);
    }
  }

  async function save() {
    try {
      const { replay } = await server.ask("/replay", { have: have() });
      download("replay.json", JSON.stringify(replay, null, 1));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      message(error.message);
    }
  }

  function shown(index) {
    const moment = data.moments[index];
    showActions(data, moment, act);
    showPlaces(data, moment, act);
    find("from-here").classList.toggle("unused", index >= data.moments.length - 1);
    message("");
    think();
  }

  function connect() {
    find("seat-you").onclick = () => sit("you");
    find("seat-agent").onclick = () => sit("agent");
    find("agent-form").onsubmit = (event) => {
      event.preventDefault();
      useAgent(find("agent").value.trim());
    };
    find("thinking").onclick = () => showThinking(!state.thinking);
    find("menu").onclick = () => {
      const open = document.querySelector("header").classList.toggle("open");
      find("menu").setAttribute("aria-expanded", String(open));
    };
    find("new").onclick = () => find("new-game").showModal();
    find("new-game").onclose = () => {
      if (find("new-game").returnValue === "start") newGame();
    };
    find("open").onclick = () => find("file").click();
    find("file").onchange = () => {
      const [file] = find("file").files;
      find("file").value = "";
      if (file) open(file);
    };
    find("save").onclick = save;
    find("from-here").onclick = fromHere;
  }

  function key(event) {
    if (find("new-game").open) return false;
    const letters = new Map(data.actions.map((about, action) => [about.key, action]));
    const others = {
      "1": () => sit("you"), "2": () => sit("agent"), "Enter": fromHere,
      "h": () => showThinking(!state.thinking),
    };
    if (event.key in PLAYER_KEYS) {
      const stepping = state.seat === "agent" && /Left|Right/.test(event.key);
      if (stepping) return false;
      act(PLAYER_KEYS[event.key]);
    } else if (Object.hasOwn(others, event.key)) others[event.key]();
    else if (letters.has(event.key)) act(letters.get(event.key));
    else return false;
    return true;
  }

  notice("Starting \u2026");
  find("side").classList.add("live");
  if (!await ask("/state")) return;
  const empty = () => (data.agent ? "" : "Name an agent above to see what it thinks.");
  view = makeViewer(data, { beyond, shown, empty, seen: "what the player sees" });
  connect();
  listKeys([
    [["\u2190", "\u2191", "\u2192", "\u2193"], "move or shoot"],
    [["s"], "siphon; programs have the letters beside them"],
    [["h"], "what the agent would do, and why"],
    [["1", "2"], "you play, the agent plays"],
    [[",", "."], "one move back, forward"],
    [["Enter"], "at an earlier position: continue from here"],
    ...VIEWER_KEYS,
  ]);
  connectKeys(view, key);
  view.setEverything(false);
  showThinking(false);
  view.show(view.last());
  if (data.agent && page.watch) sit("agent");
}
