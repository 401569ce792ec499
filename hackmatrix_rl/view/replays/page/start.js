/* Starts the page: live with a server, else the game in its data. */

/** Shows the title and the player of a game, and the panels that it fills. */
function describe(data) {
  find("title").textContent = data.title;
  const named = !data.player || data.title.includes(data.player);
  find("player").textContent = named ? "" : `played by ${data.player}`;
  document.title = data.title;
  find("thoughts-panel").hidden = !data.moments.some((moment) => moment.opinions);
}

/** Shows a recorded game; `more` are further keys, and `listed` their lines in the list of keys. */
function startRecorded(data, more = {}, listed = []) {
  describe(data);
  const view = makeViewer(data);
  // A report shows the page in a sandbox without downloads, and has a link to the replay.
  find("save").hidden = !data.replay
    || (window !== window.parent && window.origin === "null");
  find("save").onclick = () => download("replay.json", JSON.stringify(data.replay, null, 1));
  // Only HackMatrix has hidden things and marks on the board.
  const ours = data.moments.every((moment) => moment.facts);
  for (const name of ["view", "reading-title", "reading"]) find(name).hidden = !ours;
  listKeys([[["\u2190", "\u2192"], "one move back, forward"], ...listed,
    ...VIEWER_KEYS.filter(([names]) => ours || names[0] !== "0")]);
  connectKeys(view, (event) => {
    if (!Object.hasOwn(more, event.key)) return false;
    more[event.key]();
    return true;
  });
  view.setEverything(true);
  view.show(0);
  return view;
}

(() => {
  const data = JSON.parse(find("data").textContent);
  if (data.live) startLive(data);
  else startRecorded(data);
})();
