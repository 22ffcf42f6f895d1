// The page without this file works too: links, forms and text stay. It draws the graph and differences, follows the
// run, and moves by keys. It holds no state but what is open on the screen.
(() => {
  "use strict";
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const live = () => one("#live");

  // --- following: one stream per page, closed while nobody looks ---
  let source = null;
  let last = null;
  let waiting = null;

  function follow() {
    const place = live();
    if (!place?.dataset.stream || document.hidden || source) return;
    const after = last ?? place.dataset.after;
    source = new EventSource(`${place.dataset.stream}?after=${encodeURIComponent(after)}`);
    source.addEventListener("line", (event) => { last = event.lastEventId; addLine(JSON.parse(event.data)); });
    source.addEventListener("moved", (event) => { last = event.lastEventId; refresh(); });
    source.addEventListener("error", () => { if (source?.readyState === EventSource.CLOSED) pause(); }); // it was refused
  }

  function pause() {
    source?.close();
    source = null;
  }

  function addLine(line) {
    const list = all("[data-lines]").find((each) => each.dataset.lines === line.step);
    if (!list || document.getElementById(line.id)) return;
    const entry = document.createElement("li");
    entry.id = line.id;
    for (const [tag, text] of [["time", line.time], ["b", line.kind], ["span", line.text]]) {
      const part = document.createElement(tag);
      part.textContent = text; // what an agent wrote is text
      entry.append(part, " ");
    }
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    list.append(entry);
    if (list.children.length > 400) list.firstElementChild.remove();
    if (isAtEnd) list.scrollTop = list.scrollHeight; // who has scrolled up is reading
  }

  // What git says now, in place of what was shown; half-typed answers, open details and the place on the page stay.
  function refresh() {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const answer = await fetch(location.href, { headers: { "HX-Request": "true" } }).catch(() => null);
      const fresh = answer && one("#live", new DOMParser().parseFromString(await answer.text(), "text/html"));
      const place = live();
      if (!fresh || !place) return;
      const focus = document.activeElement;
      for (const kept of all("details[id]", place)) {
        const other = fresh.querySelector(`#${CSS.escape(kept.id)}`);
        if (other) other.open = kept.open;
      }
      for (const field of all("#steer [name]", place)) {
        const same = one(`form[action="${field.form.getAttribute("action")}"] [name="${CSS.escape(field.name)}"]`, fresh);
        if (same && field.value !== field.defaultValue) same.value = field.value;
        if (same && field.type === "checkbox") same.checked = field.checked;
      }
      remember(fresh);
      for (const id of KEPT) keep(place, fresh, id, focus);
      place.replaceWith(fresh);
      const again = focus.isConnected ? focus : all("[data-uiid]").find((each) => each.dataset.uiid === focus.dataset?.uiid);
      again?.focus({ preventScroll: true });
      htmx.process(fresh);
      draw();
    }, 80);
  }

  const KEPT = ["steer", "answer", "canvas", "detail"];
  const made = new WeakMap();

  // What the server sent for each part, before anything was drawn in it.
  function remember(root) {
    for (const part of all(KEPT.map((id) => `#${id}`).join(), root)) if (!made.has(part)) made.set(part, part.innerHTML);
  }

  // A part that is the same, or in which somebody types, is not made anew.
  function keep(place, fresh, id, focus) {
    const [old, other] = [place, fresh].map((root) => root.querySelector(`#${id}`));
    const isTyping = id === "steer" && old?.contains(focus);
    if (old && other && (id === "answer" || isTyping || made.get(old) === made.get(other))) other.replaceWith(old);
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? pause() : follow()));
  window.addEventListener("pagehide", pause);

  // --- graph: dagre places the steps, the SVG is ours, so that every step has its name ---
  const SVG = "http://www.w3.org/2000/svg";

  function element(name, attributes, parent) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent?.append(made);
    return made;
  }

  function drawGraph() {
    const box = one("#graph");
    if (!box || box.firstChild) return;
    const given = JSON.parse(box.dataset.graph);
    const graph = new dagre.graphlib.Graph({ multigraph: true });
    const isNarrow = box.clientWidth < 700;
    graph.setGraph({ rankdir: isNarrow ? "TB" : "LR", nodesep: 14, ranksep: 34, marginx: 8, marginy: 8 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const node of given.nodes) graph.setNode(node.id, { width: 24 + Math.max(7.4 * (node.id.length + 2), 5.4 * node.agent.length), height: 40 });
    given.edges.forEach((edge, number) => graph.setEdge(edge.source, edge.target, {}, `${number}`));
    dagre.layout(graph);
    const corners = [...graph.edges().flatMap((each) => graph.edge(each).points), ...graph.nodes().map((each) => graph.node(each)).flatMap(
      ({ x, y, width, height }) => [{ x: x - width / 2, y: y - height / 2 }, { x: x + width / 2, y: y + height / 2 }])];
    const [left, top] = ["x", "y"].map((axis) => Math.min(...corners.map((each) => each[axis])) - 6);
    const [width, height] = [["x", left], ["y", top]].map(([axis, least]) => Math.max(...corners.map((each) => each[axis])) - least + 6);
    const scale = Math.min(Math.max(box.clientWidth / width, 0.7), 1);
    const svg = element("svg", { viewBox: `${left} ${top} ${width} ${height}`, width: width * scale, height: height * scale }, box);
    const marker = element("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, element("defs", {}, svg));
    element("path", { d: "M0 0L8 4L0 8z" }, marker);
    given.edges.forEach((edge, number) => {
      const points = graph.edge(edge.source, edge.target, `${number}`)?.points ?? [];
      const line = points.map((point, index) => `${index ? "L" : "M"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`).join("");
      const path = element("path", { d: line, class: `edge ${edge.aside ? "aside" : ""} ${edge.back ? "back" : ""}`, "marker-end": "url(#arrow)" }, svg);
      if (edge.label) element("title", {}, path).textContent = edge.label;
    });
    for (const node of given.nodes) {
      const link = all("[data-uiid]").find((each) => each.dataset.uiid === `flow_studio.canvas.outline.step:${node.id}`);
      const { x, y, width: wide, height: high } = graph.node(node.id);
      const group = element("a", { href: link?.getAttribute("href") ?? "#", tabindex: -1, class: `node ${link?.className ?? ""}`, "data-uiid": `flow_studio.canvas.graph.step:${node.id}` }, svg);
      group.addEventListener("click", (event) => { event.preventDefault(); press(`flow_studio.canvas.outline.step:${node.id}`); });
      element("rect", { x: x - wide / 2, y: y - high / 2, width: wide, height: high, rx: 8 }, group);
      element("text", { x, y: y - 2 }, group).textContent = `${node.sign} ${node.id}`;
      element("text", { x, y: y + 13, class: "small" }, group).textContent = node.agent;
      element("title", {}, group).textContent = `${node.id}: ${node.outcome}${node.aside ? ", a detour" : ""}`;
    }
  }

  // --- differences: git's own text, side by side where there is room ---
  function drawDiffs() {
    for (const box of all("pre.diff")) {
      const made = document.createElement("div");
      const format = box.clientWidth > 760 ? "side-by-side" : "line-by-line";
      try {
        made.innerHTML = Diff2Html.html(box.textContent, { drawFileList: false, outputFormat: format, matching: "none", colorScheme: "auto" });
      } catch {
        continue; // the text stays
      }
      if (made.querySelector(".d2h-wrapper table")) box.replaceWith(made);
    }
  }

  function draw() {
    remember(document);
    search();
    drawGraph();
    drawDiffs();
    for (const list of all("[data-lines]")) list.scrollTop = list.scrollHeight;
    const row = one(".timeline .shown") ?? one(".timeline .active");
    if (row) row.parentElement.scrollTop = row.offsetTop - row.parentElement.clientHeight / 3;
    const box = one("#graph");
    const node = box && (one(".active rect", box) ?? one(".coming rect", box));
    if (node) box.scrollLeft += node.getBoundingClientRect().x - box.getBoundingClientRect().x - box.clientWidth / 2;
  }

  // --- keys ---
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      one('[data-uiid="flow_studio.header.search.input"]').focus();
    }
    const step = { j: 1, k: -1 }[event.key];
    const items = all("[data-item] a:first-of-type").filter((each) => each.closest("[data-item]").querySelector("a") === each);
    if (!step || !items.length) return;
    const at = items.indexOf(document.activeElement);
    const shown = items.findIndex((each) => each.closest(".shown"));
    items[Math.min(Math.max((at < 0 ? (shown < 0 ? -1 : shown) : at) + step, 0), items.length - 1)].focus();
  });

  // Typing in the search leaves only what has the words, of this page; Enter searches all runs.
  function search() {
    const { value, defaultValue } = one('[data-uiid="flow_studio.header.search.input"]');
    const words = value === defaultValue ? "" : value.toLowerCase();
    for (const item of all("[data-item]")) item.hidden = !item.textContent.toLowerCase().includes(words);
  }

  document.addEventListener("input", search);

  // --- the machine contract ---
  window.__flowStudio = {
    getState() {
      const { run = null, state = null, flow = null, step = null } = live()?.dataset ?? {};
      const steps = all('[data-uiid^="flow_studio.canvas.outline.step:"]').map((each) => each.dataset.uiid.split("step:")[1]);
      return { runId: run, runState: state, activeFlow: flow, selectedStep: step || null, steps, isLive: source !== null };
    },
    setActiveFlow: (flow) => press(`flow_studio.sidebar.flow:${flow}`),
    selectStep: (step) => press(`flow_studio.canvas.outline.step:${step}`),
  };

  function press(name) {
    const found = all("[data-uiid]").find((each) => each.dataset.uiid === name);
    found?.click();
    return Boolean(found);
  }

  document.addEventListener("htmx:after:swap", () => {
    draw();
    if (one("#answer [data-moved]")) refresh();
  });
  draw();
  follow();
})();
