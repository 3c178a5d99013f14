// SPDX-License-Identifier: Apache-2.0
// What tests/commands/report_browser.sh asks of a page, from within it.
"use strict";
setTimeout(() => {
  const wrong = [];
  const expect = (what, holds) => { if (!holds) wrong.push(what); };
  const all = (selector) => [...document.querySelectorAll(selector)];
  const press = (node, key, more = {}) =>
    node.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...more }));
  try {
    const titles = all(".charts h3").map((node) => node.textContent);
    expect(`charts: ${titles}`, titles.join() === "Loss,Learning rate,Gradient norm,Tokens per second");
    expect("a name is markup", all("main i").length === 0);
    expect("the name of a run", all("button.run").map((node) => node.textContent.trim()).join() === "a,<i>b,empty");
    expect(`${document.documentElement.scrollWidth} wide`, document.documentElement.scrollWidth <= innerWidth);

    const [loss] = all(".charts svg.plot");
    const readout = loss.parentElement.querySelector(".readout");
    const curves = () => loss.querySelectorAll(".curve").length;
    expect(`${curves()} curves of the loss`, curves() === 3);  // two runs, and evaluations of one
    expect("the band of a long run", loss.querySelectorAll(".band").length === 1);
    expect("the step without a loss", loss.querySelectorAll(".none").length === 1);
    const unsound = all("path").filter((node) => /NaN|undefined/.test(node.getAttribute("d")));
    expect("a curve has a number that is none", unsound.length === 0);

    // Keys
    loss.focus();
    expect("focus", document.activeElement === loss);
    press(loss, "Home");
    const first = loss.getAttribute("aria-valuetext");
    expect(`first: ${first}`, first.startsWith("steps 0 to 3 ·"));
    expect("what is seen is what is said", readout.textContent === first);
    press(loss, "ArrowRight");
    expect("right", loss.getAttribute("aria-valuetext").startsWith("steps 4 to 7 ·"));
    press(loss, "ArrowRight", { shiftKey: true });
    expect("ten", loss.getAttribute("aria-valuenow") === "11");
    press(loss, "End");
    expect("end", loss.getAttribute("aria-valuenow") === loss.getAttribute("aria-valuemax"));
    press(loss, "ArrowRight");
    expect("stays", loss.getAttribute("aria-valuenow") === loss.getAttribute("aria-valuemax"));
    press(loss, "Home");
    const whole = loss.querySelector(".curve").getAttribute("d");
    press(loss, "+");
    expect("closer", loss.querySelector(".curve").getAttribute("d") !== whole && !byId("whole").disabled);
    press(loss, "0");
    expect("all again", loss.querySelector(".curve").getAttribute("d") === whole && byId("whole").disabled);
    press(loss, "l");
    expect("log", all(".head button")[0].getAttribute("aria-pressed") === "true");
    expect("log draws", loss.querySelector(".curve").getAttribute("d") !== whole);
    press(loss, "L");

    // Runs that are hidden, and the axis
    const [runA] = all("button.run");
    runA.click();
    expect("hidden", runA.getAttribute("aria-pressed") === "false" && curves() === 1);
    runA.click();
    expect("shown", curves() === 3);
    for (const axis of ["tokens", "seconds", "step"]) {
      byId("along").value = axis;
      byId("along").dispatchEvent(new Event("change"));
      expect(`along ${axis}`, curves() === 3 && !/NaN/.test(loss.innerHTML));
    }
    byId("smoothing").value = "0";
    byId("smoothing").dispatchEvent(new Event("input"));
    expect("not smoothed", loss.querySelectorAll(".raw").length === 0);

    // Every map of memory, and tensors in it
    const map = document.querySelector("#memory-map svg.plot"), arena = byId("arena");
    const labels = [...arena.options].map((option) => option.textContent);
    expect(`maps: ${labels}`, labels.includes("parameters") && labels.includes("scratch, during forward_backward"));
    for (const option of arena.options) {
      arena.value = option.value;
      arena.dispatchEvent(new Event("change"));
      expect(`map of ${option.textContent}`, map.querySelectorAll(".box").length > 0 && !/NaN/.test(map.innerHTML));
    }
    press(map, "Home");
    expect("a tensor is chosen", map.querySelectorAll(".chosen").length > 0);

    // The timeline
    const step = document.querySelector("#timeline-chart svg.plot");
    expect("lanes", step.querySelectorAll(".box").length > 10 && !/NaN/.test(step.innerHTML));
    press(step, "ArrowRight");
    const begin = step.getAttribute("aria-valuetext");
    for (let k = 0; k < 12; ++k) press(step, "ArrowRight");
    expect("calls", step.getAttribute("aria-valuetext") !== begin);
    press(step, "ArrowDown");
    expect("another stream", step.getAttribute("aria-valuetext").includes(" on gather"));
    const before = step.getAttribute("aria-valuetext");
    expect(`waits: ${before}`, before.includes("waited for"));
    press(step, "w");
    expect("its cause", step.getAttribute("aria-valuetext") !== before);
    press(step, "+");
    press(step, "0");
    press(step, "Escape");
    expect(`busy: ${step.getAttribute("aria-valuetext")}`, step.getAttribute("aria-valuetext").includes("compute"));

    // Whoever does not see it hears it: each control and each picture has a name.
    for (const node of all("svg.plot")) {
      const label = node.getAttribute("aria-label") || byId(node.getAttribute("aria-labelledby")).textContent;
      expect("a picture without a name", label && node.getAttribute("role") === "slider");
      expect("a picture without a value", node.getAttribute("aria-valuetext"));
    }
    for (const node of all("select, input")) expect("a control without a label", node.closest("label"));
  } catch (error) {
    wrong.push(`${error}`);
  }
  const verdict = document.createElement("pre");
  verdict.id = "verdict";
  verdict.textContent = wrong.length === 0 ? "all is as it should be" : wrong.join("; ");
  document.body.append(verdict);
}, 500);
