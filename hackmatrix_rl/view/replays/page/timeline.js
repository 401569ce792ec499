/* The timeline of a game: stages, return, value and hp over the moves. A click jumps to a move. */

function makeTimeline(place, legend, jump) {
  let moments = [], sums = [], values = [], width = 0, cursor = null;
  const height = 76, top = 16, middle = 54;
  const across = (index) => 4 + (width - 8) * (index / Math.max(1, moments.length - 1));

  function line(numbers, low, high, from, to, kind) {
    const scale = (value) => to - (to - from) * ((value - low) / (high - low || 1));
    const points = numbers.flatMap((value, index) =>
      typeof value === "number" ? [`${across(index).toFixed(1)},${scale(value).toFixed(1)}`] : []);
    place.append(drawn("polyline", { class: kind, points: points.join(" ") }));
  }

  function stages() {
    if (!moments[0].facts) return;
    let start = 0;
    for (let index = 1; index <= moments.length; index += 1) {
      const stage = moments[start].facts.stage;
      if (index < moments.length && moments[index].facts.stage === stage) continue;
      const left = across(start), right = index < moments.length ? across(index) : width;
      place.append(drawn("rect", {
        class: stage % 2 ? "odd" : "even", x: left, y: 0, height, width: Math.max(0, right - left),
      }));
      const words = right - left > 52 ? `stage ${stage}` : right - left > 12 ? `${stage}` : "";
      place.append(drawn("text", { x: left + 4, y: 11 }, words));
      start = index;
    }
  }

  function paint() {
    width = place.clientWidth;
    if (!width || !moments.length) return;
    place.setAttribute("viewBox", `0 0 ${width} ${height}`);
    place.replaceChildren();
    stages();
    const all = [...sums, ...values].filter((value) => typeof value === "number");
    const low = Math.min(0, ...all), high = Math.max(0, ...all);
    const lowest = moments[0].facts ? middle : height - 6;
    line(sums, low, high, top, lowest, "return");
    line(values, low, high, top, lowest, "value");
    if (moments[0].facts) {
      line(moments.map((moment) => moment.facts.hp), 0, 3, middle + 4, height - 3, "hp");
    }
    cursor = drawn("line", { class: "cursor", y1: 0, y2: height });
    place.append(cursor);
  }

  function value(moment) {
    const first = Object.values(moment.opinions || {})[0];
    return first && typeof first.value === "number" ? first.value : null;
  }

  function jumpTo(event) {
    const box = place.getBoundingClientRect();
    const share = (event.clientX - box.left - 4) / Math.max(1, box.width - 8);
    jump(Math.round(Math.min(1, Math.max(0, share)) * (moments.length - 1)));
  }
  place.addEventListener("pointerdown", (event) => {
    place.setPointerCapture(event.pointerId);
    jumpTo(event);
  });
  place.addEventListener("pointermove", (event) => { if (event.buttons) jumpTo(event); });
  new ResizeObserver(() => { paint(); mark(marked); }).observe(place);

  let marked = 0;
  function mark(index) {
    marked = index;
    if (!cursor || !moments[index]) return;
    cursor.setAttribute("x1", across(index));
    cursor.setAttribute("x2", across(index));
    const here = values[index];
    legend.replaceChildren(
      element("span", { class: "return" }, `return ${number(sums[index])}`),
      ...(values.some((each) => each !== null)
        ? [element("span", { class: "value" },
          `value ${typeof here === "number" ? number(here) : "\u2013"}`)] : []),
      moments[index].facts
        ? element("span", { class: "hp" }, `hp ${moments[index].facts.hp}`) : "",
    );
  }

  return {
    /** Draws a game: its positions and the return up to each. */
    show(allMoments, returns) {
      moments = allMoments;
      sums = returns;
      values = moments.map(value);
      paint();
    },
    mark,
  };
}
