"use strict";
// Draws the charts of a report in the colours of the page, and again when these change.
(() => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.look ? root.dataset.look === "dark" : system.matches);
  let figures = [];
  let data = new Map();

  function collect() {
    figures = [...document.querySelectorAll("figure[data-kind]")];
    data = new Map(
      figures.map((figure) => [figure, JSON.parse(figure.querySelector("script").textContent)]),
    );
  }

  function config() {
    const style = getComputedStyle(root);
    const ink = style.getPropertyValue("--ink").trim();
    const line = style.getPropertyValue("--line").trim();
    return {
      background: null,
      font: "system-ui, sans-serif",
      view: { stroke: null },
      mark: { color: style.getPropertyValue("--mark").trim() },
      rule: { color: ink },
      text: { color: ink },
      axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line },
      legend: { labelColor: ink, titleColor: ink, orient: "bottom", columns: 2, labelLimit: 240 },
      header: { labelColor: ink, titleColor: ink },
    };
  }

  async function draw(figure, spec) {
    const place = figure.querySelector(".chart");
    try {
      await vegaEmbed(
        place,
        { ...spec, config: config() },
        { mode: "vega-lite", actions: false, renderer: "svg", tooltip: { theme: isDark() ? "dark" : "light" } },
      );
      figure.dataset.drawn = "yes";
    } catch (error) {
      figure.dataset.drawn = "no";
      place.textContent = `This chart cannot be drawn here (${error.message}); the table has its data.`;
      figure.querySelector("details").open = true;
    }
  }

  // By the id of a landscape, what a reader chose: the task, and which decisions are its axes.
  const chosen = new Map();

  function pickers(figure) {
    const { tasks } = data.get(figure);
    const place = figure.querySelector(".controls");
    const choice = chosen.get(figure.id) ?? { task: 0, x: 0, y: 1 };
    const task = tasks.findIndex(({ label }) => label === choice.label);
    if (task >= 0) choice.task = task; // a page that is live may list it elsewhere
    choice.label = tasks[choice.task].label;
    chosen.set(figure.id, choice);
    place.replaceChildren();
    const add = (name, label, options) => {
      const outer = document.createElement("label");
      const select = document.createElement("select");
      options.forEach((text, number) => select.add(new Option(text, String(number))));
      select.value = String(choice[name]);
      select.addEventListener("change", () => {
        choice[name] = Number(select.value);
        if (name === "task") {
          choice.label = tasks[choice.task].label;
          choice.x = 0;
          choice.y = 1;
          pickers(figure);
        }
        show(figure);
      });
      outer.append(`${label} `, select);
      place.append(outer);
    };
    add("task", "Task", tasks.map((task) => task.label));
    add("x", "across", tasks[choice.task].names);
    add("y", "up", tasks[choice.task].names);
  }

  // The best time of each pair of values, the fastest first.
  function pairs(task, { x, y }) {
    const cells = new Map();
    task.us.forEach((us, n) => {
      const cell = { x: task.columns[x][n], y: task.columns[y][n], us };
      const key = `${cell.x},${cell.y}`;
      if (!cells.has(key) || cells.get(key).us > us) cells.set(key, cell);
    });
    return [...cells.values()].sort((one, other) => one.us - other.us);
  }

  // The same pairs as a table below the chart, in place of that of the choice before.
  function listed(figure, names, cells) {
    const table = document.createElement("table");
    table.className = "pairs";
    table.createCaption().textContent = `Best time of each pair of ${names.join(" and ")}`;
    const add = (row, kind, text, scope) => {
      const cell = row.appendChild(document.createElement(kind));
      cell.textContent = text;
      if (scope) cell.scope = scope;
    };
    const header = table.createTHead().insertRow();
    [...names, "us"].forEach((name) => add(header, "th", name, "col"));
    const body = table.createTBody();
    cells.forEach((cell) => {
      const row = body.insertRow();
      [cell.x, cell.y, cell.us].forEach((value) => add(row, "td", String(value)));
    });
    figure.querySelector("table.pairs")?.remove();
    figure.querySelector("details").append(table);
  }

  function show(figure) {
    const choice = chosen.get(figure.id);
    const task = data.get(figure).tasks[choice.task];
    const names = [task.names[choice.x], task.names[choice.y]];
    const cells = pairs(task, choice);
    listed(figure, names, cells);
    draw(figure, landscape(names, cells));
  }

  function landscape(names, cells) {
    const axis = (name) => ({ labelOverlap: true, title: name });
    return {
      width: "container",
      height: 320,
      encoding: {
        x: { field: "x", type: "ordinal", axis: axis(names[0]) },
        y: { field: "y", type: "ordinal", sort: "descending", axis: axis(names[1]) },
      },
      layer: [
        {
          data: { values: cells },
          mark: { type: "rect", tooltip: true },
          encoding: {
            color: { field: "us", type: "quantitative", title: "best, us", scale: { scheme: "viridis", type: "log" } },
          },
        },
        { data: { values: cells.slice(0, 1) }, mark: { type: "point", shape: "cross", color: "red", size: 160, filled: true } },
      ],
    };
  }

  function drawAll() {
    collect();
    for (const figure of figures) {
      if (figure.dataset.kind === "landscape") {
        pickers(figure);
        show(figure);
      } else {
        draw(figure, data.get(figure));
      }
    }
  }

  system.addEventListener("change", drawAll);
  document.addEventListener("replaced", drawAll);
  document.getElementById("look").addEventListener("click", () => {
    root.dataset.look = isDark() ? "light" : "dark";
    drawAll();
  });
  drawAll();
})();
