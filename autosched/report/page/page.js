"use strict";
// Draws the charts of a report in the colours of the page, and again when these change.
(() => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.look ? root.dataset.look === "dark" : system.matches);
  const figures = [...document.querySelectorAll("figure[data-kind]")];
  const data = new Map(
    figures.map((figure) => [figure, JSON.parse(figure.querySelector("script").textContent)]),
  );

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

  // What a reader chose on a landscape: the task, and which decisions are its axes.
  const chosen = new Map();

  function pickers(figure) {
    const { tasks } = data.get(figure);
    const place = figure.querySelector(".controls");
    const choice = chosen.get(figure) ?? { task: 0, x: 0, y: 1 };
    chosen.set(figure, choice);
    place.replaceChildren();
    const add = (name, label, options) => {
      const outer = document.createElement("label");
      const select = document.createElement("select");
      options.forEach((text, number) => select.add(new Option(text, String(number))));
      select.value = String(choice[name]);
      select.addEventListener("change", () => {
        choice[name] = Number(select.value);
        if (name === "task") {
          choice.x = 0;
          choice.y = 1;
          pickers(figure);
        }
        draw(figure, landscape(tasks[choice.task], choice));
      });
      outer.append(`${label} `, select);
      place.append(outer);
    };
    add("task", "Task", tasks.map((task) => task.label));
    add("x", "across", tasks[choice.task].names);
    add("y", "up", tasks[choice.task].names);
  }

  function landscape(task, { x, y }) {
    const cells = new Map();
    let best = null;
    task.us.forEach((us, n) => {
      const cell = { x: task.columns[x][n], y: task.columns[y][n], us };
      const key = `${cell.x},${cell.y}`;
      if (!cells.has(key) || cells.get(key).us > us) cells.set(key, cell);
      if (best === null || best.us > us) best = cell;
    });
    const axis = (name) => ({ labelOverlap: true, title: name });
    return {
      width: "container",
      height: 320,
      encoding: {
        x: { field: "x", type: "ordinal", axis: axis(task.names[x]) },
        y: { field: "y", type: "ordinal", sort: "descending", axis: axis(task.names[y]) },
      },
      layer: [
        {
          data: { values: [...cells.values()] },
          mark: { type: "rect", tooltip: true },
          encoding: {
            color: { field: "us", type: "quantitative", title: "best, us", scale: { scheme: "viridis", type: "log" } },
          },
        },
        { data: { values: [best] }, mark: { type: "point", shape: "cross", color: "red", size: 160, filled: true } },
      ],
    };
  }

  function drawAll() {
    for (const figure of figures) {
      if (figure.dataset.kind === "landscape") {
        pickers(figure);
        const choice = chosen.get(figure);
        draw(figure, landscape(data.get(figure).tasks[choice.task], choice));
      } else {
        draw(figure, data.get(figure));
      }
    }
  }

  system.addEventListener("change", drawAll);
  document.getElementById("look").addEventListener("click", () => {
    root.dataset.look = isDark() ? "light" : "dark";
    drawAll();
  });
  drawAll();
})();
