/* Requests to the server, and its activity while they run. */

/** The server refused a request, or did not answer; the message is a line for the user. */
class Refused extends Error {}

/** A function that shows words in an element, and hides the element without words. */
const lineIn = (id) => (words) => {
  find(id).hidden = !words;
  find(id).textContent = words;
};

const MOST_SEED = 2 ** 32 - 1;

/** The seed in the dialog of a new game; `null` for any; `undefined`, with a message, if invalid. */
function seedGiven(message) {
  const text = find("seed").value.trim();
  if (Number(text) <= MOST_SEED) return text === "" ? null : Number(text);
  message(`A seed is a whole number from 0 to ${MOST_SEED}.`);
  return undefined;
}

function makeServer(notice) {
  const token = new URLSearchParams(location.search).get("token") || "";
  const headers = { "Content-Type": "application/json", "X-HackMatrix-Token": token };
  let waiting = 0;
  const setBusy = () =>
    document.querySelector("main").setAttribute("aria-busy", String(waiting > 0));

  async function send(path, options) {
    let response;
    try {
      response = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw new Refused("The server has ended. Start hackmatrix-rl ui again.");
    }
    const answer = await response.json();
    if (answer.error) throw new Refused(answer.error);
    return answer;
  }

  /** Shows the server's activity while a request runs. */
  async function tell() {
    if (!waiting) return;
    const { doing, seconds } = await send("/status", { method: "GET" });
    if (waiting) notice(`${doing || "Working"} \u2026 ${Math.round(seconds || 0)} s`);
    setTimeout(() => tell().catch(() => notice("")), 500);
  }

  return {
    get busy() { return waiting > 0; },
    /** Posts a request and returns the answer; throws `Refused` with a line for the user. */
    async ask(path, body) {
      waiting += 1;
      setBusy();
      const timer = setTimeout(() => tell().catch(() => notice("")), 400);
      try {
        return await send(path, { method: "POST", body: JSON.stringify(body) });
      } finally {
        clearTimeout(timer);
        waiting -= 1;
        setBusy();
        if (!waiting) notice("");
      }
    },
  };
}
