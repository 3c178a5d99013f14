// ---- a step in time -------------------------------------------------------------------------------------------------

if (data.timeline) {
  const lanes = data.timeline.lanes;
  const spans = data.timeline.spans.map(([name, kind, lane, begin, duration, bytes, id, after], index) =>
    ({ name, kind: kind || name.split(/[ (]/)[0], lane, begin, end: begin + duration, bytes, id, after, index }));
  const byNumber = new Map(spans.filter((span) => span.id >= 0).map((span) => [span.id, span]));
  const whole = { from: Math.min(...spans.map((span) => span.begin)), to: Math.max(...spans.map((span) => span.end)) };
  const showing = { ...whole };
  const container = byId("timeline-chart");
  const plot = slider({ "aria-label": "the calls of a step", "aria-roledescription": "timeline" });
  const readout = html("output", { class: "readout", "aria-live": "off" });
  const ofLane = lanes.map((_, lane) => spans.filter((span) => span.lane === lane));
  let chosen = null;

  // The longest chain: from what ends last, each one's cause.
  const chain = new Set();
  let link = spans.reduce((last, span) => (last === null || span.end > last.end ? span : last), null);
  while (link && link.after >= 0 && !chain.has(link)) {
    chain.add(link);
    link = byNumber.get(link.after);
  }
  if (link && chain.size > 0) chain.add(link);

  // Kinds by the time that they take; the eighth colour is that of all others.
  const times = new Map();
  for (const span of spans) times.set(span.kind, (times.get(span.kind) || 0) + span.end - span.begin);
  const kinds = [...times.keys()].sort((a, b) => times.get(b) - times.get(a) || (a < b ? -1 : 1));
  const color = new Map(kinds.map((kind, k) => [kind, Math.min(k, 7)]));

  const timeText = (us) => us >= 1e6 ? trimmed((us / 1e6).toPrecision(4)) + " s"
    : us >= 1e3 ? trimmed((us / 1e3).toPrecision(4)) + " ms" : trimmed(us.toPrecision(4)) + " µs";

  const key = html("ul", { class: "key" });
  kinds.slice(0, 8).forEach((kind, k) => {
    const others = k === 7 && kinds.length > 8;
    const time = others ? kinds.slice(7).reduce((sum, one) => sum + times.get(one), 0) : times.get(kind);
    key.append(html("li", {}, svg("svg", { viewBox: "0 0 11 11", "aria-hidden": "true" },
      svg("rect", { class: `f${k}`, width: 11, height: 11 })), `${others ? "others" : kind} ${timeText(time)}`));
  });
  container.append(plot, readout, key);

  const draw = () => {
    const width = Math.max(260, container.clientWidth - 26), height = 30, gap = 8;
    const left = Math.min(130, 14 + 7 * Math.max(1, ...lanes.map((lane) => lane.length)));
    const x = (time) => left + ((time - showing.from) / (showing.to - showing.from || 1)) * (width - left - 8);
    const top = (lane) => 4 + lane * (height + gap);
    const bottom = top(lanes.length);
    const group = svg("g", { "aria-hidden": "true" });
    for (const time of ticks(showing.from, showing.to, Math.max(2, Math.floor(width / 120))))
      group.append(svg("path", { class: "grid", d: `M${x(time)} 0V${bottom}` }),
        svg("text", { x: x(time), y: bottom + 14, "text-anchor": "middle" }, timeText(time)));
    lanes.forEach((name, lane) => {
      group.append(svg("text", { x: left - 8, y: top(lane) + 20, "text-anchor": "end" },
        name.length > 18 ? name.slice(0, 17) + "…" : name));
      let merged = null;  // what is too small to be seen by itself is one box with its neighbours
      for (const span of ofLane[lane]) {
        if (span.end < showing.from || span.begin > showing.to) continue;
        const begin = Math.max(left, x(span.begin)), end = Math.min(width - 8, x(span.end));
        const tiny = end - begin < 0.8 && span !== chosen;
        if (tiny && merged && begin - merged.end < 0.8) {
          merged.end = Math.max(merged.end, end);
          merged.rect.setAttribute("width", Math.max(0.8, merged.end - merged.begin).toFixed(2));
          continue;
        }
        const outlined = chain.has(span) && end - begin > 4;  // of smaller ones nothing would be left
        const style = `box f${color.get(span.kind)}${outlined ? " chain" : ""}${span === chosen ? " chosen" : ""}`;
        const rect = svg("rect", { class: style, x: begin.toFixed(2), y: top(lane), height,
          width: Math.max(0.8, end - begin).toFixed(2) });
        rect.addEventListener("pointerenter", () => choose(span));
        rect.addEventListener("click", () => choose(span));
        group.append(rect);
        merged = tiny ? { begin, end, rect } : null;
        if (end - begin > 7 * span.name.length + 6)
          group.append(svg("text", { class: "inside", x: begin + 4, y: top(lane) + 19 }, span.name));
      }
    });
    for (const rect of group.querySelectorAll(".chosen")) group.append(rect);
    const cause = chosen && byNumber.get(chosen.after);
    const middle = (span) => top(span.lane) + height / 2;
    if (cause)
      group.append(svg("path",
        { class: "curve c1", d: `M${x(cause.end)} ${middle(cause)}L${x(chosen.begin)} ${middle(chosen)}` }));
    plot.replaceChildren(group);
    plot.setAttribute("viewBox", `0 0 ${width} ${bottom + 22}`);
    tell();
  };

  const tell = () => {
    if (chosen === null) {
      const busy = lanes.map((lane, k) => {
        // Spans may lie within each other: the time in which one of them runs.
        let end = -Infinity, sum = 0;
        for (const span of ofLane[k]) {
          sum += Math.max(0, span.end - Math.max(end, span.begin));
          end = Math.max(end, span.end);
        }
        return `${lane} ${short((100 * sum) / (whole.to - whole.from || 1))}% busy`;
      });
      readout.replaceChildren(`${timeText(whole.to - whole.from)} · ${busy.slice(0, 8).join(" · ")}`);
    } else {
      const cause = byNumber.get(chosen.after);
      const waits = cause ? ` · waited for ${cause.name} on ${lanes[cause.lane]}` : "";
      const bytes = chosen.bytes > 0 ? ` · ${countText(chosen.bytes)}B` : "";
      readout.replaceChildren(html("b", {}, chosen.name),
        ` on ${lanes[chosen.lane]} · ${chosen.kind} · from ${timeText(chosen.begin)}, ` +
        `${timeText(chosen.end - chosen.begin)}${bytes}${waits}`);
    }
    say(plot, chosen ? chosen.index : 0, spans.length, readout.textContent);
  };

  const choose = (span) => {
    if (chosen === span || span === undefined) return;
    chosen = span;
    if (span && (span.end < showing.from || span.begin > showing.to)) {
      const half = (showing.to - showing.from) / 2, middle = (span.begin + span.end) / 2;
      Object.assign(showing, { from: middle - half, to: middle + half });
    }
    draw();
  };
  const zoom = (factor) => {
    const middle = chosen ? (chosen.begin + chosen.end) / 2 : (showing.from + showing.to) / 2;
    const half = ((showing.to - showing.from) / 2) * factor;
    if (2 * half >= whole.to - whole.from) Object.assign(showing, whole);
    else Object.assign(showing, { from: middle - half, to: middle + half });
    draw();
  };
  const neighbour = (stride) => {
    if (!chosen) return ofLane.find((list) => list.length > 0)?.[0];
    const list = ofLane[chosen.lane], at = list.indexOf(chosen) + stride;
    return list[Math.max(0, Math.min(list.length - 1, at))];
  };
  const otherLane = (stride) => {
    if (!chosen) return neighbour(0);
    for (let lane = chosen.lane + stride; lane >= 0 && lane < lanes.length; lane += stride)
      if (ofLane[lane].length > 0)
        return ofLane[lane].reduce((best, span) =>
          Math.abs(span.begin - chosen.begin) < Math.abs(best.begin - chosen.begin) ? span : best);
    return chosen;
  };

  plot.addEventListener("pointerleave", () => { if (document.activeElement !== plot) choose(null); });
  plot.addEventListener("dblclick", () => {
    Object.assign(showing, whole);
    draw();
  });
  plot.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowRight: () => choose(neighbour(1)), ArrowLeft: () => choose(neighbour(-1)),
      ArrowDown: () => choose(otherLane(1)), ArrowUp: () => choose(otherLane(-1)),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => zoom(Infinity),
      w: () => choose(chosen ? byNumber.get(chosen.after) : undefined), Escape: () => choose(null),
    };
    const action = actions[event.key] || actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  });
  onWidth(container, draw);
}
