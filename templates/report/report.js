// SPDX-License-Identifier: Apache-2.0
// The page's script: curves of runs. What there is to draw stands in the element `data`, as cli/report_page.cpp wrote
// it.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

// ---- pieces ---------------------------------------------------------------------------------------------------------

const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const short = (x) => x.toFixed(1).replace(/\.0$/, "");
const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

function numberText(x) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-3) return x.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return trimmed(x.toPrecision(4));
}

function countText(x) {
  const units = ["", "k", "M", "G", "T", "P"];
  let unit = 0;
  while (Math.abs(x) >= 999.5 && unit + 1 < units.length) {
    x /= 1000;
    ++unit;
  }
  return trimmed(x.toPrecision(3)) + units[unit];
}

function durationText(seconds) {
  if (seconds < 60) return trimmed(seconds.toPrecision(3)) + " s";
  const whole = Math.round(seconds);
  const two = (n) => String(n).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60;
  return `${Math.floor(whole / 3600)}:${two(minutes)}:${two(whole % 60)}`;
}

// About `count` round numbers from least to most.
function ticks(least, most, count) {
  const step = (most - least) / Math.max(1, count);
  if (!(step > 0)) return [least];
  const power = 10 ** Math.floor(Math.log10(step));
  const nice = (step < 1.5 * power ? 1 : step < 3.5 * power ? 2 : step < 7.5 * power ? 5 : 10) * power;
  const out = [];
  for (let k = Math.ceil(least / nice - 1e-9); k * nice <= most + 1e-9 * nice; ++k) out.push(k * nice);
  return out;
}

function logTicks(least, most, count) {
  const decades = Math.log10(most / least);
  if (decades < 1) return ticks(least, most, count).filter((x) => x > 0);
  const digits = decades > count ? [1] : decades > 2.5 ? [1, 3] : [1, 2, 5];
  const every = Math.max(1, Math.ceil(decades / count));
  const out = [];
  for (let e = Math.floor(Math.log10(least)); e <= Math.log10(most); ++e)
    if (e % every === 0)
      for (const digit of digits)
        if (digit * 10 ** e >= least * 0.999 && digit * 10 ** e <= most * 1.001) out.push(digit * 10 ** e);
  return out;
}

// A picture that arrow keys go through: what stands there is said as the value of a slider.
function slider(attributes) {
  return svg("svg", { class: "plot", tabindex: "0", role: "slider", "aria-valuemin": "0", ...attributes });
}
function say(plot, index, count, text) {
  plot.setAttribute("aria-valuemax", String(Math.max(0, count - 1)));
  plot.setAttribute("aria-valuenow", String(Math.max(0, index)));
  plot.setAttribute("aria-valuetext", text);
}

// Draws, and again when the width changes. The container is in the page by then; a picture that is printed keeps its
// shape.
function onWidth(container, draw) {
  let width = Math.round(container.clientWidth);
  draw();
  new ResizeObserver(() => {
    const now = Math.round(container.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    requestAnimationFrame(draw);
  }).observe(container);
}

// ---- what is shown --------------------------------------------------------------------------------------------------

const view = { along: "step", smoothing: 0.9, range: null, hidden: new Set() };

const alongTexts = { step: (x) => countText(x), tokens: (x) => countText(x), seconds: durationText };

// Where a point of a series lies on the axis: the middle of the steps that it stands for.
function along(series, k) {
  return view.along === "step" ? (series.first[k] + series.last[k]) / 2 : series[view.along][k];
}

function whichSteps(series, k) {
  const first = series.first[k], last = series.last[k];
  const steps = first === last ? `step ${first}` : `steps ${first} to ${last}`;
  if (view.along === "step") return steps;
  const at = alongTexts[view.along](series[view.along][k]);
  return `${steps}, ${at}${view.along === "tokens" ? " tokens" : ""}`;
}

// A moving average that forgets each point by this factor. Divided by the weights so far, it begins at the first one.
function smoothed(values, factor) {
  let mean = 0, weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * factor + value * (1 - factor);
    weight = weight * factor + (1 - factor);
    return mean / weight;
  });
}

const definitions = [
  { title: "Loss", parts: [["steps", "loss", "training"], ["evaluations", "eval_loss", "evaluation"]] },
  { title: "Learning rate", parts: [["steps", "lr", ""]], plain: true },
  { title: "Gradient norm", parts: [["steps", "grad_norm", ""]] },
  { title: "Tokens per second", parts: [["steps", "tokens_per_second", ""]], text: countText, zero: true },
  { title: "Model FLOPs utilisation", parts: [["steps", "mfu", ""]], text: (x) => short(100 * x) + "%", zero: true },
  { title: "Perplexity", parts: [["evaluations", "eval_perplexity", ""]] },
  { title: "Accuracy", parts: [["evaluations", "eval_accuracy", ""]], text: (x) => short(100 * x) + "%" },
  { title: "Loss scale", parts: [["steps", "loss_scale", ""]], plain: true, text: countText },
];

class Chart {
  constructor(definition, index) {
    this.definition = definition;
    this.index = index;
    this.text = definition.text || numberText;
    this.log = false;
    this.cursor = null; // index into the points of the first run that is shown
    const title = html("h3", { id: `chart-${index}` }, definition.title);
    this.logButton = html("button", { type: "button", "aria-pressed": "false" }, "log");
    this.logButton.setAttribute("aria-label", `logarithmic scale: ${definition.title}`);
    this.logButton.addEventListener("click", () => this.toggleLog());
    this.plot = slider({ "aria-labelledby": `chart-${index}`, "aria-roledescription": "chart" });
    this.readout = html("output", { class: "readout", "aria-live": "off" });
    this.card = html("div", { class: "chart card" }, html("div", { class: "head" }, title, this.logButton), this.plot,
      this.readout);
    this.listen();
  }

  // The curves of runs that are shown.
  curves() {
    const out = [];
    data.runs.forEach((run, number) => {
      if (view.hidden.has(number)) return;
      for (const [series, column, label] of this.definition.parts) {
        const numbers = run[series][column];
        if (!numbers) continue;
        const evaluated = series === "evaluations";
        const smooth = !evaluated && !this.definition.plain && view.smoothing > 0;
        out.push({
          run, number, label, evaluated, series: run[series], column: numbers, smooth,
          shown: smooth ? smoothed(numbers.mean, view.smoothing) : numbers.mean,
        });
      }
    });
    return out;
  }

  toggleLog() {
    this.log = !this.log;
    this.logButton.setAttribute("aria-pressed", String(this.log));
    this.draw();
  }

  // The axes' ends. `drawn`: the numbers that the picture has to show.
  scales(curves) {
    let left = Infinity, right = -Infinity;
    for (const { series } of curves)
      for (const k of [0, series.first.length - 1])
        if (k >= 0 && series.first.length > 0) {
          left = Math.min(left, along(series, k));
          right = Math.max(right, along(series, k));
        }
    if (view.range) [left, right] = view.range;
    if (!(left <= right)) [left, right] = [0, 1];
    if (left === right) right = left + 1;
    let least = Infinity, most = -Infinity;
    const show = (y) => {
      if (y === null || (this.log && y <= 0)) return;
      least = Math.min(least, y);
      most = Math.max(most, y);
    };
    for (const { series, column, shown, evaluated } of curves) {
      const lows = [], highs = [];
      for (let k = 0; k < series.first.length; ++k) {
        const x = along(series, k);
        if (x < left || x > right) continue;
        show(shown[k]);
        show(column.mean[k]);
        if (!column.least || evaluated || column.least[k] === null) continue;
        lows.push(column.least[k]);
        highs.push(column.most[k]);
      }
      // Of what single steps had, all but the hundredth that lies farthest out.
      const ordered = (list) => list.sort((a, b) => a - b);
      if (lows.length > 0) show(ordered(lows)[Math.floor(0.01 * lows.length)]);
      if (highs.length > 0) show(ordered(highs)[Math.ceil(0.99 * highs.length) - 1]);
    }
    if (!(least <= most)) [least, most] = this.log ? [1, 10] : [0, 1];
    if (this.definition.zero && !this.log) least = Math.min(0, least);
    if (least === most) {
      const room = Math.abs(least) * 0.05 || 1;
      [least, most] = this.log ? [least / 1.5, most * 1.5] : [least - room, most + room];
    }
    if (this.log) return { left, right, least: least / 1.06, most: most * 1.06 };
    const room = (most - least) * 0.04;
    return { left, right, least: this.definition.zero && least === 0 ? 0 : least - room, most: most + room };
  }

  draw() {
    const width = Math.max(240, this.card.clientWidth - 26);
    const height = Math.round(Math.min(280, Math.max(180, width * 0.45)));
    const curves = this.curves();
    const ends = this.scales(curves);
    const yTicks = (this.log ? logTicks : ticks)(ends.least, ends.most, 5);
    const longest = Math.max(1, ...yTicks.map((y) => this.text(y).length));
    const box = { left: Math.min(90, 10 + 7 * longest), right: width - 10, top: 10, bottom: height - 26 };
    const x = (value) => box.left + ((value - ends.left) / (ends.right - ends.left)) * (box.right - box.left);
    const part = this.log ? (y) => Math.log(y / ends.least) / Math.log(ends.most / ends.least)
                          : (y) => (y - ends.least) / (ends.most - ends.least);
    const y = (value) => box.bottom - (this.log && value <= 0 ? -1 : part(value)) * (box.bottom - box.top);
    Object.assign(this, { box, x, y, ends, drawnCurves: curves });

    const clip = `clip-${this.index}`;
    const axes = svg("g", { "aria-hidden": "true" });
    for (const value of yTicks)
      axes.append(svg("path", { class: "grid", d: `M${box.left} ${y(value)}H${box.right}` }),
        svg("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, this.text(value)));
    for (const value of ticks(ends.left, ends.right, Math.max(2, Math.floor(width / 110)))) {
      if (view.along === "step" && value % 1 !== 0) continue;
      axes.append(svg("path", { class: "axis", d: `M${x(value)} ${box.bottom}v4` }),
        svg("text", { x: x(value), y: box.bottom + 18, "text-anchor": "middle" }, alongTexts[view.along](value)));
    }
    axes.append(svg("path", { class: "axis", d: `M${box.left} ${box.bottom}H${box.right}` }));

    const inside = svg("g", { "clip-path": `url(#${clip})`, "aria-hidden": "true" });
    for (const curve of curves) this.drawCurve(inside, curve);
    if (this.index === 0) this.drawEvents(inside);
    this.selection = svg("rect", { class: "select", y: box.top, height: box.bottom - box.top, width: 0 });
    this.line = svg("g", { "aria-hidden": "true" });
    this.plot.replaceChildren(
      svg("defs", {}, svg("clipPath", { id: clip },
        svg("rect", { x: box.left, y: box.top - 3, width: box.right - box.left, height: box.bottom - box.top + 3 }))),
      axes, inside, this.selection, this.line);
    this.plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.showCursor();
  }

  drawCurve(into, { number, evaluated, series, column, shown, smooth }) {
    const classes = `c${number % 8} d${Math.floor(number / 8) % 4}`;
    const count = series.first.length;
    // What lies outside of the picture counts as far as the first neighbour.
    let first = 0, last = count - 1;
    while (first < last && along(series, first + 1) < this.ends.left) ++first;
    while (last > first && along(series, last - 1) > this.ends.right) --last;
    const path = (values) => {
      let text = "", pen = "M";
      for (let k = first; k <= last; ++k) {
        if (values[k] === null || (this.log && values[k] <= 0)) {
          pen = "M";
          continue;
        }
        text += `${pen}${this.x(along(series, k)).toFixed(1)} ${this.y(values[k]).toFixed(1)}`;
        pen = "L";
      }
      return text;
    };
    if (column.least && !evaluated) {
      const room = [];
      for (let k = first; k <= last; ++k)
        if (column.least[k] !== null && !(this.log && column.least[k] <= 0)) room.push(k);
      const edge = (values, ks) =>
        ks.map((k) => `${this.x(along(series, k)).toFixed(1)} ${this.y(values[k]).toFixed(1)}`).join("L");
      if (room.length > 1)
        into.append(svg("path", { class: `band f${number % 8}`,
          d: `M${edge(column.most, room)}L${edge(column.least, room.reverse())}Z` }));
    }
    if (smooth) into.append(svg("path", { class: `raw ${classes}`, d: path(column.mean) }));
    into.append(svg("path", { class: `curve ${classes}${evaluated ? " thin" : ""}`, d: path(shown) }));
    const every = Math.ceil((last - first + 1) / 40);
    if (evaluated || count === 1)
      for (let k = first; k <= last; ++k)
        if (shown[k] !== null && (k - first) % every === 0)
          into.append(svg("circle",
            { class: `mark ${classes}`, cx: this.x(along(series, k)), cy: this.y(shown[k]), r: 3 }));
    if (column.none)
      column.none.forEach((none, k) => {
        if (none === 0) return;
        const at = this.x(along(series, k)), top = this.box.top;
        into.append(svg("path", { class: "none", d: `M${at - 5} ${top}h10l-5 8z` },
          svg("title", {}, `not a number: ${whichSteps(series, k)}`)));
      });
  }

  drawEvents(into) {
    data.runs.forEach((run, number) => {
      if (view.hidden.has(number)) return;
      for (const event of run.events) {
        let k = run.steps.last.findIndex((last) => last >= event.step);
        if (k < 0) k = run.steps.last.length - 1;
        if (k < 0) continue;
        const at = this.x(view.along === "step" ? event.step : along(run.steps, k));
        into.append(svg("path", { class: "event", d: `M${at} ${this.box.top}V${this.box.bottom}` },
          svg("title", {}, `${run.name}, step ${event.step}: ${event.text}`)));
      }
    });
  }

  // ---- one point --------------------------------------------------------------------------------------------------

  leading() {
    return this.drawnCurves.find((curve) => curve.series.first.length > 0);
  }

  static nearest(series, value) {
    let best = 0;
    for (let k = 1; k < series.first.length; ++k)
      if (Math.abs(along(series, k) - value) < Math.abs(along(series, best) - value)) best = k;
    return best;
  }

  valueText({ column, shown, smooth }, k) {
    if (column.mean[k] === null) return column.none && column.none[k] > 0 ? "not a number" : "–";
    const asides = [];
    if (column.least && column.least[k] !== column.most[k])
      asides.push(`${this.text(column.least[k])} to ${this.text(column.most[k])}`);
    if (smooth) asides.push(`smoothed ${this.text(shown[k])}`);
    if (column.none && column.none[k] > 0) asides.push(`${column.none[k]} not a number`);
    return this.text(column.mean[k]) + (asides.length > 0 ? ` (${asides.join(", ")})` : "");
  }

  showCursor() {
    this.line.replaceChildren();
    const leading = this.leading();
    if (!leading) {
      this.readout.replaceChildren("no run is shown that has it");
      say(this.plot, 0, 0, "no run is shown that has it");
      return;
    }
    const asked = this.cursor !== null;
    const count = leading.series.first.length;
    const index = asked ? Math.min(this.cursor, count - 1) : count - 1;
    const at = along(leading.series, index);
    const pieces = [asked ? whichSteps(leading.series, index) : "at the end"];
    for (const curve of this.drawnCurves.slice(0, 8)) {
      if (curve.series.first.length === 0) continue;
      const k = asked ? Chart.nearest(curve.series, at) : curve.series.first.length - 1;
      const name = data.runs.length > 1 ? `${curve.run.name}${curve.label === "evaluation" ? ", evaluated" : ""}`
                                        : curve.label;
      pieces.push(" · ");
      if (name) pieces.push(`${name} `);
      const [value, aside] = this.valueText(curve, k).split(/(?= \()/);
      pieces.push(html("b", {}, value), aside || "");
      if (asked && curve.shown[k] !== null)
        this.line.append(svg("circle", { class: `mark c${curve.number % 8}`, cx: this.x(along(curve.series, k)),
          cy: this.y(curve.shown[k]), r: 4 }));
    }
    if (this.drawnCurves.length > 8) pieces.push(` · and ${this.drawnCurves.length - 8} more`);
    if (asked)
      this.line.prepend(svg("path", { class: "cursor", d: `M${this.x(at)} ${this.box.top}V${this.box.bottom}` }));
    this.readout.replaceChildren(...pieces);
    say(this.plot, index, count, this.readout.textContent);
  }

  moveTo(index) {
    const leading = this.leading();
    if (!leading) return;
    this.cursor = Math.max(0, Math.min(leading.series.first.length - 1, index));
    // What is looked at is in the picture.
    const at = along(leading.series, this.cursor);
    if (view.range && (at < view.range[0] || at > view.range[1])) {
      const half = (view.range[1] - view.range[0]) / 2;
      setRange([at - half, at + half]);
    } else {
      this.showCursor();
    }
  }

  zoom(factor) {
    const leading = this.leading();
    if (!leading) return;
    const { left, right } = this.ends;
    const middle = this.cursor === null ? (left + right) / 2 : along(leading.series, this.cursor);
    const half = ((right - left) / 2) * factor;
    setRange(half * 2 >= fullWidth() ? null : [middle - half, middle + half]);
  }

  listen() {
    const plot = this.plot;
    const value = (event) => {
      const area = plot.getBoundingClientRect();
      const scale = plot.viewBox.baseVal.width / area.width;
      const inside = Math.min(this.box.right, Math.max(this.box.left, (event.clientX - area.left) * scale));
      const part = (inside - this.box.left) / (this.box.right - this.box.left);
      return { pixel: inside, x: this.ends.left + part * (this.ends.right - this.ends.left) };
    };
    let from = null;
    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "touch" && event.button === 0) from = value(event);
    });
    plot.addEventListener("pointermove", (event) => {
      const leading = this.leading();
      if (!leading) return;
      const now = value(event);
      this.cursor = Chart.nearest(leading.series, now.x);
      this.showCursor();
      if (from === null) return;
      this.selection.setAttribute("x", Math.min(from.pixel, now.pixel));
      this.selection.setAttribute("width", Math.abs(from.pixel - now.pixel));
    });
    const end = (event) => {
      if (from === null) return;
      const now = value(event), begin = from;
      from = null;
      this.selection.setAttribute("width", 0);
      if (event.type === "pointerup" && Math.abs(begin.pixel - now.pixel) > 8)
        setRange([Math.min(begin.x, now.x), Math.max(begin.x, now.x)]);
    };
    plot.addEventListener("pointerup", end);
    plot.addEventListener("pointerleave", (event) => {
      end(event);
      if (document.activeElement !== plot) {
        this.cursor = null;
        this.showCursor();
      }
    });
    plot.addEventListener("dblclick", () => setRange(null));
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const leading = this.leading();
      const last = leading ? leading.series.first.length - 1 : 0;
      const now = this.cursor === null ? last : this.cursor;
      const stride = event.shiftKey ? 10 : 1;
      const actions = {
        ArrowLeft: () => this.moveTo(now - stride), ArrowRight: () => this.moveTo(now + stride),
        ArrowDown: () => this.moveTo(now - stride), ArrowUp: () => this.moveTo(now + stride),
        PageDown: () => this.moveTo(now - 50), PageUp: () => this.moveTo(now + 50),
        Home: () => this.moveTo(0), End: () => this.moveTo(last),
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => setRange(null),
        l: () => this.toggleLog(), L: () => this.toggleLog(),
        Escape: () => { this.cursor = null; this.showCursor(); },
      };
      if (!actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    });
  }
}

// ---- all charts -----------------------------------------------------------------------------------------------------

const charts = definitions
  .filter(({ parts }) => data.runs.some((run) => parts.some(([series, column]) => run[series][column])))
  .map((definition, index) => new Chart(definition, index));

function fullWidth() {
  let left = Infinity, right = -Infinity;
  for (const { steps } of data.runs)
    if (steps.first.length > 0) {
      left = Math.min(left, along(steps, 0));
      right = Math.max(right, along(steps, steps.first.length - 1));
    }
  return right - left;
}

function drawAll() {
  for (const chart of charts) chart.draw();
}

function setRange(range) {
  view.range = range;
  byId("whole").disabled = range === null;
  drawAll();
}

byId("charts").append(...charts.map((chart) => chart.card));
for (const chart of charts) onWidth(chart.card, () => chart.draw());
if (charts.length === 0) byId("charts").append(html("p", { class: "hint" }, "There is nothing to draw yet."));
byId("whole").addEventListener("click", () => setRange(null));
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("along").addEventListener("change", (event) => {
  view.along = event.target.value;
  setRange(null);
});
byId("smoothing").addEventListener("input", (event) => {
  view.smoothing = Number(event.target.value);
  byId("smoothing-value").textContent = view.smoothing.toFixed(2);
  drawAll();
});
for (const button of document.querySelectorAll("button.run"))
  button.addEventListener("click", () => {
    const run = Number(button.dataset.run);
    const hides = !view.hidden.has(run);
    if (hides) view.hidden.add(run);
    else view.hidden.delete(run);
    button.setAttribute("aria-pressed", String(!hides));
    drawAll();
  });

