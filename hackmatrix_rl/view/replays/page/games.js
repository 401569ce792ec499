/* The live page of an agent in any environment: the server plays each game to its end first. */

async function startLive() {
  const data = {}, message = lineIn("message"), server = makeServer(lineIn("busy"));
  let view = null;

  /** Shows the game in the server's answer; shows a refusal as a line. */
  async function show(path, body = {}) {
    if (server.busy) return;
    message("");
    if (view) view.pause();
    try {
      Object.assign(data, await server.ask(path, body));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      message(error.message);
      return;
    }
    if (view) {
      view.refresh();
      describe(data);
      view.show(0);
    } else view = startRecorded(data, { "n": nextGame }, [[["n"], "next game"]]);
    find("player").textContent = data.which;
    view.play();
  }

  const nextGame = () => { show("/next-game"); };

  find("next-game").onclick = nextGame;
  find("new").onclick = () => find("new-game").showModal();
  find("new-game").onclose = () => {
    const seed = find("new-game").returnValue === "start" ? seedGiven(message) : undefined;
    if (seed !== undefined) show("/new", { seed });
  };
  await show("/state");
}
