"use strict";
/* Two things: a name in a legend brings its lines to the front; a run can be stepped through, and
   an event shows what came before and after it. Without this script everything is still there. */
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // --- legends

  const names = [...document.querySelectorAll("button.entry")];
  let chosen = null;

  function bring(series) {
    root.classList.toggle("focused", series !== null);
    for (const group of document.querySelectorAll(".figure .series"))
      group.classList.toggle("front-most", group.dataset.series === series);
  }

  for (const name of names) {
    const series = name.dataset.series;
    name.addEventListener("pointerenter", () => bring(series));
    name.addEventListener("pointerleave", () => bring(chosen));
    name.addEventListener("focus", () => bring(series));
    name.addEventListener("blur", () => bring(chosen));
    name.addEventListener("click", () => {
      chosen = chosen === series ? null : series;
      for (const other of names)
        other.setAttribute("aria-pressed", String(other.dataset.series === chosen));
      bring(chosen);
    });
  }

  // --- runs

  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const motion = isCalm ? "auto" : "smooth";

  function drawn(name, attributes, parent) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    parent.append(element);
    return element;
  }

  function play(article) {
    const { processes, moments, events } = JSON.parse(article.querySelector(".data").textContent);
    const svg = article.querySelector(".stage .spacetime:not(.names)");
    const stage = article.querySelector(".stage");
    const status = article.querySelector(".status");
    const count = article.querySelector(".count");
    const story = article.querySelector(".story");
    const lines = [...story.children];
    const chips = [...article.querySelectorAll(".chip")];
    const buttons = Object.fromEntries(
      [...article.querySelectorAll("[data-go]")].map((button) => [button.dataset.go, button]));
    const wrongAt = lines.findIndex((line) => line.classList.contains("wrong-here"));
    let at = null; // the moment that is shown; null for the whole run
    let pinned = null; // the event whose light stays on

    // An event is [process, index, moment, past]; the past holds one index for each process.
    const number = new Map(processes.map((name, position) => [name, position]));
    const all = events.map((_, key) => key);
    const byPlace = new Map(events.map((event, key) => [`${event[0]}:${event[1]}`, key]));
    const find = (process, index) => byPlace.get(`${number.get(process)}:${index}`);
    const isBefore = (one, other) =>
      one !== other && events[one][1] <= events[other][3][events[one][0]];

    function relation(one, other) {
      if (one === other) return "is-self";
      if (isBefore(one, other)) return "is-past";
      return isBefore(other, one) ? "is-future" : "";
    }

    // Marks and labels belong to one event, packets to two, or to one if they never arrive.
    const parts = [];
    for (const element of svg.querySelectorAll(".event, .down, .label, .packets > *, .packet-labels > *")) {
      const { process, index, to, toIndex } = element.dataset;
      const begin = find(process, index);
      if (begin === undefined) continue;
      const end = toIndex === undefined ? undefined : find(to, toIndex);
      const isPacket = element.closest(".packets, .packet-labels") !== null;
      parts.push({ element, begin, end, isPacket });
    }
    const marks = parts.filter((part) => part.element.classList.contains("event"));
    const cones = drawn("g", { class: "cones" }, svg);
    svg.querySelector(".lanes").after(cones);
    const cursor = drawn("g", { class: "now" }, svg);

    // --- light

    function lightOf(part, event) {
      if (!part.isPacket) return relation(part.begin, event);
      // A packet is of the past if it arrived there, and of the future if it was sent there.
      const end = part.end === undefined ? "" : relation(part.end, event);
      if (end === "is-past" || end === "is-self") return "is-past";
      const begin = relation(part.begin, event);
      return begin === "is-future" || begin === "is-self" ? "is-future" : "";
    }

    function light(event) {
      svg.classList.toggle("lit", event !== null);
      for (const part of parts) {
        part.element.classList.remove("is-self", "is-past", "is-future");
        const found = event === null ? "" : lightOf(part, event);
        if (found) part.element.classList.add(found);
      }
      cones.replaceChildren();
      if (event === null) return tell();
      for (const [position, name] of processes.entries()) cone(position, name, event);
      tell(event);
    }

    function cone(position, name, event) {
      const lane = [...svg.querySelectorAll("path.lane")]
        .filter((path) => path.dataset.process === name)
        .map((path) => path.getAttribute("d").match(/-?[\d.]+/g).map(Number));
      if (!lane.length) return;
      const y = lane[0][1];
      const [left, right] = [lane[0][0], lane[lane.length - 1][2]];
      const x = (key) => moments[events[key][2]];
      const own = all.filter((key) => events[key][0] === position);
      const past = own.filter((key) => key === event || isBefore(key, event)).map(x);
      const future = own.filter((key) => key === event || isBefore(event, key)).map(x);
      if (past.length)
        drawn("path", { class: "cone past", d: `M${left} ${y}H${Math.max(...past)}` }, cones);
      if (future.length)
        drawn("path", { class: "cone future", d: `M${Math.min(...future)} ${y}H${right}` }, cones);
    }

    function tell(event) {
      if (event === undefined) {
        status.textContent = at === null ? status.dataset.hint : lines[at].textContent;
        return;
      }
      const others = all.filter((key) => key !== event);
      const past = others.filter((key) => isBefore(key, event)).length;
      const future = others.filter((key) => isBefore(event, key)).length;
      const neither = others.length - past - future;
      status.replaceChildren(
        `${lines[events[event][2]].textContent} Of the other ${others.length} events shown, `,
        span("lit-past", `${past} came before it (solid)`), ", ",
        span("lit-future", `${future} after it (dashed)`),
        `; of ${neither} it knew nothing, nor they of it.`);
    }

    function span(name, words) {
      const element = document.createElement("span");
      element.className = name;
      element.textContent = words;
      return element;
    }

    function pin(event) {
      pinned = pinned === event ? null : event;
      for (const chip of chips)
        chip.setAttribute("aria-pressed", String(Number(chip.dataset.event) === pinned));
      light(pinned);
    }

    function unpin() {
      pinned = null;
      for (const chip of chips) chip.setAttribute("aria-pressed", "false");
      light(null);
    }

    for (const { element, begin } of marks) {
      drawn("circle", { class: "hit", r: 12 }, element);
      element.addEventListener("pointerenter", () => light(begin));
      element.addEventListener("pointerleave", () => light(pinned));
      element.addEventListener("click", () => pin(begin));
    }
    for (const chip of chips) {
      const event = Number(chip.dataset.event);
      chip.addEventListener("pointerenter", () => light(event));
      chip.addEventListener("pointerleave", () => light(pinned));
      chip.addEventListener("focus", () => light(event));
      chip.addEventListener("blur", () => light(pinned));
      chip.addEventListener("click", () => {
        pin(event);
        if (pinned !== null) bringIntoView(events[event][2], motion);
      });
    }

    // --- steps

    function go(moment) {
      at = moment === null ? null : Math.min(Math.max(moment, 0), moments.length - 1);
      svg.classList.toggle("stepping", at !== null);
      for (const { element, begin, end } of parts) {
        const isLater = at !== null && events[begin][2] > at;
        const isFlying = at !== null && !isLater && end !== undefined && events[end][2] > at;
        element.classList.toggle("later", isLater);
        element.classList.toggle("flying", isFlying);
      }
      svg.querySelector(".violation").classList.toggle("later", at !== null && at < wrongAt);
      for (const [position, line] of lines.entries()) {
        line.classList.toggle("now", position === at);
        line.classList.toggle("later", at !== null && position > at);
        if (position === at) line.setAttribute("aria-current", "step");
        else line.removeAttribute("aria-current");
      }
      count.textContent = at === null ? `${moments.length} steps`
        : `step ${at + 1} of ${moments.length}`;
      buttons.first.disabled = buttons.back.disabled = at === 0;
      buttons.last.disabled = buttons.on.disabled = at === moments.length - 1;
      buttons.all.disabled = at === null;
      cursor.replaceChildren();
      unpin();
      if (at !== null) show();
      tell();
    }

    function show() {
      const bottom = svg.viewBox.baseVal.height - 4;
      drawn("path", { class: "cursor", d: `M${moments[at]} 4V${bottom}` }, cursor);
      for (const { element, begin } of marks) {
        if (events[begin][2] === at) {
          const transform = element.getAttribute("transform");
          drawn("circle", { class: "around", r: 12, transform }, cursor);
        }
      }
      bringIntoView(at, motion);
    }

    function bringIntoView(moment, behavior) {
      const x = (moments[moment] * svg.clientWidth) / svg.viewBox.baseVal.width;
      const covered = article.querySelector(".names").clientWidth;
      stage.scrollTo({ left: x - (covered + stage.clientWidth) / 2, behavior });
      const top = lines[moment].offsetTop - story.clientHeight / 2;
      story.scrollTo({ top, behavior });
    }

    const ways = {
      first: () => go(0),
      back: () => go(at === null ? moments.length - 1 : at - 1),
      on: () => go(at === null ? 0 : at + 1),
      last: () => go(moments.length - 1),
      all: () => go(null),
    };
    const keys = {
      ArrowRight: "on", ArrowLeft: "back", Home: "first", End: "last", Escape: "all",
    };
    for (const [way, button] of Object.entries(buttons))
      button.addEventListener("click", ways[way]);
    for (const [position, line] of lines.entries())
      line.addEventListener("click", () => go(position));
    stage.addEventListener("keydown", (event) => {
      const here = marks.find((mark) => events[mark.begin][2] === at);
      if (event.key === "Enter" && here) pin(here.begin);
    });
    article.querySelector(".play").addEventListener("keydown", (event) => {
      const way = keys[event.key];
      if (!way || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      ways[way]();
    });
    buttons.all.disabled = true;
    tell();
  }

  for (const article of document.querySelectorAll(".picture")) play(article);
})();
