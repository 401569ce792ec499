/* The panels next to the board: the player's numbers, the last move, the agents' opinions. */

/** The player's numbers and programs. */
function showFacts(place, moment, actions) {
  const facts = moment.facts;
  const chip = (name, value, kind = "", words = null) =>
    element("li", { class: kind },
      element("span", { class: "name" }, name),
      words === null ? element("b", {}, value)
        : element("b", { "aria-label": words, role: "img" }, value));
  const left = facts.task === null ? "off" : `in ${Math.max(0, facts.task - facts.turn)}`;
  place.replaceChildren(
    chip("stage", `${facts.stage}/8`),
    chip("turn", number(facts.turn)),
    chip("hp", "\u2665".repeat(facts.hp) + "\u2661".repeat(3 - facts.hp), "hp",
      `${facts.hp} of 3`),
    chip("score", number(facts.score)),
    chip("credits", number(facts.credits), "credits"),
    chip("energy", number(facts.energy), "energy"),
    chip("siphons", number(facts.data_siphons), "siphon"),
    chip("attack", number(facts.attack)),
    chip("next task", left),
    ...facts.active.map((name) => chip("active", name, "on")),
    element("li", { class: "owned" },
      element("span", { class: "name" }, "programs"),
      ...(moment.owned.length ? moment.owned.map((action) => {
        const ready = moment.legal.includes(action);
        return element("em", { class: ready ? "" : "off", title: ready ? "" : "not legal now" },
          actions[action].name);
      }) : [element("span", { class: "quiet" }, "none yet")])),
  );
}

/** The move that led to a position: its name, its reward by term, the return so far. */
function showMove(place, title, moment, index, soFar, actions) {
  if (moment.action === null) {
    title.textContent = "The start";
    place.replaceChildren(element("p", { class: "quiet" }, "No move yet."));
    return;
  }
  title.replaceChildren(`Move ${index} `, element("strong", {}, actions[moment.action].name));
  const terms = Object.entries(moment.terms);
  const row = (name, value, kind = "") =>
    element("tr", { class: kind },
      element("th", { scope: "row" }, name),
      element("td", { class: value < 0 ? "loss" : "gain" }, number(value, { sign: true })));
  place.replaceChildren(
    element("table", { class: "terms" },
      element("tbody", {},
        ...terms.map(([name, value]) => row(spaced(name), value)),
        row("reward", moment.reward, "total"),
        row("return so far", soFar, "sum"))));
}

/** Each agent's opinion of a position; `played` is the action that was played there. */
function showThoughts(place, moment, played, actions, empty) {
  const opinions = Object.entries(moment.opinions || {});
  const shown = opinions.map(([name, opinion]) =>
    oneMind(name, opinion, played, actions));
  place.replaceChildren(...(shown.length ? shown
    : [element("p", { class: "quiet" }, moment.end ? ENDS[moment.end] : empty)]));
}

function oneMind(name, opinion, played, actions) {
  const same = played === null || played === opinion.action;
  const heading = element("h3", {}, name, " \u2192 ",
    element("strong", {}, actions[opinion.action].name),
    same ? null : element("span", { class: "quiet" }, ` (played: ${actions[played].name})`));
  return element("article", { class: "mind" }, heading, numbersOf(opinion),
    bars(opinion, played, actions));
}

function numbersOf(opinion) {
  const parts = [];
  if (opinion.value !== null) parts.push(["value (discounted return)", number(opinion.value)]);
  if (opinion.win !== null) parts.push(["win probability", percent(opinion.win)]);
  if (!parts.length) return null;
  return element("dl", { class: "estimates" }, ...parts.flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, value)]));
}

/** The legal actions, most probable first, with their values and visits in a search. */
function bars(opinion, played, actions) {
  const chances = new Map(opinion.probabilities || []);
  const values = new Map(opinion.values || []);
  const visits = new Map(opinion.visits || []);
  const listed = [...new Set([...chances.keys(), ...visits.keys(), ...values.keys()])];
  if (!listed.length) {
    return element("p", { class: "quiet" }, "It reports only its move, no probabilities.");
  }
  const most = Math.max(...visits.values(), 1);
  const row = (action) => {
    const share = chances.has(action) ? chances.get(action) : (visits.get(action) || 0) / most;
    const fill = element("i");
    fill.style.width = `${100 * (typeof share === "number" ? share : 0)}%`;
    const chosen = action === opinion.action;
    const marks = [chosen ? "its choice" : "", action === played ? "played" : ""].filter(Boolean);
    return element("tr", { class: chosen ? "chosen" : "" },
      element("th", { scope: "row" }, actions[action].name),
      element("td", { class: "bar" }, element("span", {}, fill)),
      chances.size ? element("td", {}, percent(chances.get(action))) : null,
      values.size ? element("td", {}, values.has(action) ? number(values.get(action)) : "") : null,
      visits.size ? element("td", {}, number(visits.get(action) || 0)) : null,
      element("td", { class: "mark" }, marks.length
        ? element("span", { title: marks.join(", "), role: "img", "aria-label": marks.join(", ") },
          (chosen ? "\u25c6" : "") + (action === played ? "\u2713" : "")) : ""));
  };
  const heads = [
    element("th", { scope: "col" }, "action"), element("th", {}),
    chances.size ? element("th", { scope: "col" }, "policy") : null,
    values.size ? element("th", { scope: "col" }, "search") : null,
    visits.size ? element("th", { scope: "col" }, "visits") : null,
    element("th", {}),
  ];
  return element("table", { class: "bars" },
    element("thead", {}, element("tr", {}, ...heads.filter(Boolean))),
    element("tbody", {}, ...listed.map(row)));
}
