// ---- where tensors lie ----------------------------------------------------------------------------------------------

if (data.program) {
  const columns = ["name", "shape", "type", "arena", "offset", "bytes", "count", "stride", "lifetime", "shares"];
  const tensors = data.program.tensors.map((row) => Object.fromEntries(columns.map((name, k) => [name, row[k]])));
  for (const tensor of tensors) tensor.calls = /^(.*), calls? (\d+)(?: to (\d+))?$/.exec(tensor.lifetime);

  // One map for each arena; of memory that is reused one for each function, along its calls.
  const maps = [];
  for (const [arena, bytes] of data.program.arenas) {
    const inside = tensors.filter((tensor) => tensor.arena === arena);
    const functions = new Set(inside.filter((tensor) => tensor.calls).map((tensor) => tensor.calls[1]));
    if (functions.size === 0) maps.push({ label: arena, arena, bytes, tensors: inside });
    for (const name of functions)
      maps.push({ label: `${arena}, during ${name}`, arena, bytes, timed: true,
                  tensors: inside.filter((tensor) => tensor.calls && tensor.calls[1] === name) });
  }

  const bytesText = (bytes) => countText(bytes) + "B";
  const select = byId("arena"), container = byId("memory-map");
  const plot = slider({ "aria-label": "memory map", "aria-roledescription": "map" });
  const readout = html("output", { class: "readout", "aria-live": "off" });
  container.append(plot, readout);
  maps.forEach((map, k) => select.append(html("option", { value: String(k) }, map.label)));
  let chosen = null;
  const shown = () => maps[Number(select.value)];

  const details = (tensor) => {
    const size = tensor.count > 1 ? `${tensor.count} × ${bytesText(tensor.bytes)}` : bytesText(tensor.bytes);
    const shares = tensor.shares === "-" ? "" : ` · in turns with ${tensor.shares}`;
    return [html("b", {}, tensor.name),
            ` ${tensor.shape} ${tensor.type} · ${size} at ${countText(tensor.offset)} · ${tensor.lifetime}${shares}`];
  };

  // Places of one tensor: one, or one for each layer.
  const places = ({ count, offset, stride }) =>
    Array.from({ length: Math.min(count, 512) }, (_, i) => offset + i * stride);

  const box = (index, x, y, width, height) => {
    const rect = svg("rect", { class: `box f${index % 8}${index === chosen ? " chosen" : ""}`, x: x.toFixed(2),
      y: y.toFixed(2), width: Math.max(0.6, width).toFixed(2), height: Math.max(0.6, height).toFixed(2) });
    rect.addEventListener("pointerenter", () => choose(index));
    rect.addEventListener("click", () => choose(index));
    return rect;
  };

  // Addresses run as text does: along lines.
  const lines = (map, width) => {
    const count = 6, line = 34, gap = 6, group = svg("g");
    const each = Math.max(1, map.bytes / count);
    const top = (k) => k * (line + gap) + 4;
    for (let k = 0; k < count; ++k) {
      group.append(svg("rect", { x: 56, y: top(k), width: width - 60, height: line, fill: "none", class: "axis" }),
        svg("text", { x: 50, y: top(k) + 21, "text-anchor": "end" }, countText(k * each)));
    }
    map.tensors.forEach((tensor, index) => {
      for (const begin of places(tensor)) {
        const end = begin + tensor.bytes;
        for (let k = Math.floor(begin / each); k < count && k * each < end; ++k) {
          const from = Math.max(begin, k * each), to = Math.min(end, (k + 1) * each);
          const x = 56 + ((from - k * each) / each) * (width - 60);
          group.append(box(index, x, top(k), ((to - from) / each) * (width - 60), line));
        }
      }
    });
    return [group, top(count)];
  };

  // Calls from left to right, addresses from top to bottom.
  const calls = (map, width) => {
    const height = 270, left = 62, bottom = height - 24, group = svg("g");
    const last = Math.max(...map.tensors.map((tensor) => Number(tensor.calls[3] || tensor.calls[2])));
    const most = Math.max(...map.tensors.map((t) => t.offset + (t.count - 1) * t.stride + t.bytes));
    const x = (call) => left + ((call - 1) / last) * (width - left - 8);
    const y = (bytes) => 6 + (bytes / most) * (bottom - 6);
    for (const bytes of ticks(0, most, 5))
      group.append(svg("path", { class: "grid", d: `M${left} ${y(bytes)}H${width - 8}` }),
        svg("text", { x: left - 6, y: y(bytes) + 4, "text-anchor": "end" }, bytesText(bytes)));
    for (const call of ticks(1, last, Math.floor(width / 90)))
      if (call % 1 === 0)
        group.append(svg("text", { x: (x(call) + x(call + 1)) / 2, y: bottom + 17, "text-anchor": "middle" },
          call === 1 ? "call 1" : String(call)));
    map.tensors.forEach((tensor, index) => {
      const from = Number(tensor.calls[2]), to = Number(tensor.calls[3] || tensor.calls[2]);
      for (const begin of places(tensor))
        group.append(box(index, x(from), y(begin), x(to + 1) - x(from), y(begin + tensor.bytes) - y(begin)));
    });
    return [group, height];
  };

  const draw = () => {
    const map = shown(), width = Math.max(260, container.clientWidth - 26);
    if (!map || map.tensors.length === 0) {
      plot.replaceChildren();
      readout.replaceChildren("nothing lies there");
      return;
    }
    const [group, height] = (map.timed ? calls : lines)(map, width);
    plot.replaceChildren(group);
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    // What is chosen is drawn last, over its neighbours.
    for (const rect of group.querySelectorAll(".chosen")) group.append(rect);
    tell();
  };

  const tell = () => {
    const map = shown();
    if (chosen === null) {
      const largest = [...map.tensors].sort((a, b) => b.bytes * b.count - a.bytes * a.count)[0];
      readout.replaceChildren(`${map.tensors.length} tensors in ${bytesText(map.bytes)}; the largest: `,
        ...details(largest));
    } else {
      readout.replaceChildren(...details(map.tensors[chosen]));
    }
    say(plot, chosen || 0, map.tensors.length, readout.textContent);
  };

  const choose = (index) => {
    if (chosen === index) return;
    chosen = index;
    draw();
  };

  plot.addEventListener("pointerleave", () => { if (document.activeElement !== plot) choose(null); });
  plot.addEventListener("keydown", (event) => {
    const last = shown().tensors.length - 1;
    const to = { ArrowRight: (chosen ?? -1) + 1, ArrowDown: (chosen ?? -1) + 1, ArrowLeft: (chosen ?? 1) - 1,
                 ArrowUp: (chosen ?? 1) - 1, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to === null ? null : Math.max(0, Math.min(last, to)));
  });
  select.addEventListener("change", () => {
    chosen = null;
    draw();
  });
  select.closest("form").addEventListener("submit", (event) => event.preventDefault());
  // Most is to be seen where memory is reused.
  select.value = String(Math.max(0, maps.findIndex((map) => map.timed)));
  onWidth(container, draw);
}

