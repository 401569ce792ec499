/* Starts the page: live if a server is behind it, else the game that it carries. */

/** The words of a game, and the panels that it fills. */
function describe(data) {
  find("title").textContent = data.title;
  const named = !data.player || data.title.includes(data.player);
  find("player").textContent = named ? "" : `played by ${data.player}`;
  document.title = data.title;
  find("thoughts-panel").hidden = !data.moments.some((moment) => moment.opinions);
}

/** Shows a whole game; `more` are further keys, and `told` their lines in the list of keys. */
function startRecorded(data, more = {}, told = []) {
  describe(data);
  const view = makeViewer(data);
  // A report holds the page in a sandbox without downloads, and links the replay itself.
  find("save").hidden = !data.replay
    || (window !== window.parent && window.origin === "null");
  find("save").onclick = () => download("replay.json", JSON.stringify(data.replay, null, 1));
  // Hidden things and the signs on the board are HackMatrix's.
  const ours = data.moments.every((moment) => moment.facts);
  for (const name of ["view", "reading-title", "reading"]) find(name).hidden = !ours;
  listKeys([[["\u2190", "\u2192"], "one move back, on"], ...told,
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
