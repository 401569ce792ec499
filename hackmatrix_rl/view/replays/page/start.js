/* Starts the page: live if a server is behind it, else the game that it carries. */

function startRecorded(data) {
  find("title").textContent = data.title;
  const named = !data.player || data.title.includes(data.player);
  find("player").textContent = named ? "" : `played by ${data.player}`;
  document.title = data.title;
  const view = makeViewer(data);
  // A report holds the page in a sandbox without downloads, and links the replay itself.
  find("save").hidden = !data.replay
    || (window !== window.parent && window.origin === "null");
  find("save").onclick = () => download("replay.json", JSON.stringify(data.replay, null, 1));
  // Hidden things and the signs on the board are HackMatrix's.
  const ours = data.moments.every((moment) => moment.facts);
  for (const name of ["view", "reading-title", "reading"]) find(name).hidden = !ours;
  const minds = data.moments.some((moment) => moment.opinions);
  find("thoughts-panel").hidden = !minds;
  listKeys([[["\u2190", "\u2192"], "one move back, on"],
    ...VIEWER_KEYS.filter(([names]) => ours || names[0] !== "0")]);
  connectKeys(view);
  view.setEverything(true);
  view.show(0);
}

(() => {
  const data = JSON.parse(find("data").textContent);
  if (data.live) startLive(data);
  else startRecorded(data);
})();
