"use strict";
// Draws the charts with uPlot, and tells in #tip what lies under the cursor. Numbers are in #data.
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const HEIGHT = 280, LEAST_WIDTH = 1e-4;
// Marks of an axis in bytes are powers of two.
const POWERS = Array.from({ length: 53 }, (_, power) => 2 ** power);

const bytes = size => {
  const unit = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, one]) => size >= one);
  return unit ? parseFloat((size / unit[1]).toFixed(2)) + " " + unit[0] : size + " B";
};
const make = (tag, text) => { const one = document.createElement(tag); one.textContent = text; return one; };
const bytesAxis = label => ({ label, labelSize: 22, size: 78, incrs: POWERS, values: (_, marks) => marks.map(bytes), grid: { stroke: "#e4e4e4" } });
const numberAxis = label => ({ label, labelSize: 22, size: 36, grid: { stroke: "#e4e4e4" } });

// The run that goes on at a moment: the last one that begins before it.
function runAt(starts, moment) {
  let low = 0, high = starts.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= moment) low = middle; else high = middle - 1;
  }
  return low;
}

// Below the chart, or above it where there is no room, so that it hides nothing of what it explains.
function showTip(u, parts) {
  const box = u.root.getBoundingClientRect(), over = u.over.getBoundingClientRect();
  tip.replaceChildren(...parts);
  tip.style.display = "block";
  const below = box.bottom + tip.offsetHeight + 8 < innerHeight || box.top < tip.offsetHeight + 8;
  tip.style.left = Math.max(4, Math.min(over.left + u.cursor.left + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (below ? box.bottom + 4 : box.top - tip.offsetHeight - 4) + "px";
}

function lives(side, run) {
  const there = side.lives.filter(life => life[3] <= run && run <= life[4]).sort((a, b) => b[1] - a[1]);
  const table = document.createElement("table");
  for (const [name, size, maker, first, last, category, fetched] of there.slice(0, 8)) {
    const row = document.createElement("tr");
    const from = fetched ? "fetched from run " + first : "made by run " + first;
    const to = last + 1 < side.runs.length ? "freed after run " + last : "stays";
    const cells = [name, bytes(size), data.categories[category].meaning, data.nodes[maker][1], from, to];
    row.append(...cells.map(text => make("td", text)));
    table.append(row);
  }
  const [name, module] = data.nodes[side.runs[run]];
  const more = there.length > 8 ? `, and ${there.length - 8} more` : "";
  const used = `${module || "no module"}, ${bytes(side.memory[run])} in use; the largest of it${more}:`;
  return [make("b", `run ${run}: ${name}`), make("div", used), table];
}

function draw(id, options, values) {
  const box = document.getElementById(id);
  const width = () => Math.max(box.clientWidth, 320);
  const plot = new uPlot({ width: width(), height: HEIGHT, legend: { show: false }, ...options }, values, box);
  addEventListener("resize", () => plot.setSize({ width: width(), height: HEIGHT }));
  return plot;
}

// A wheel zooms around the cursor, or moves sideways.
function zoomable(plot, length) {
  plot.over.addEventListener("wheel", event => {
    event.preventDefault();
    let { min, max } = plot.scales.x;
    const width = max - min, here = plot.posToVal(event.offsetX, "x");
    const by = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? 1 : event.deltaY < 0 ? 0.8 : 1.25;
    const wanted = Math.min(Math.max(width * by, length * LEAST_WIDTH), length);
    min = by === 1 ? min + Math.sign(event.deltaX) * width / 10 : here - (here - min) * wanted / width;
    min = Math.min(Math.max(min, 0), length - wanted);
    plot.setScale("x", { min, max: min + wanted });
  }, { passive: false });
}

// A broken line from side to side, with its word above the right end or below it.
function level(u, value, text) {
  const { left, top, width } = u.bbox, y = u.valToPos(value, "y", true), size = 12 * devicePixelRatio;
  u.ctx.save();
  u.ctx.strokeStyle = u.ctx.fillStyle = "#b00000";
  u.ctx.lineWidth = devicePixelRatio * 1.5;
  u.ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  u.ctx.beginPath(); u.ctx.moveTo(left, y); u.ctx.lineTo(left + width, y); u.ctx.stroke();
  u.ctx.font = size + "px system-ui, sans-serif";
  u.ctx.textAlign = "right";
  const place = [left + width - size / 2, y - top > size * 1.5 ? y - size / 2 : y + size * 1.2];
  u.ctx.lineWidth = size / 4; u.ctx.strokeStyle = "#ffffffd0"; u.ctx.setLineDash([]);
  u.ctx.strokeText(text, ...place); u.ctx.fillText(text, ...place);
  u.ctx.restore();
}

function memory(id, side, length) {
  const stepped = uPlot.paths.stepped({ align: 1 });
  // The last run lasts to the end of the step.
  const closed = sizes => [...sizes, sizes[sizes.length - 1]];
  let below = side.runs.map(() => 0);
  const areas = data.categories.map(({ meaning, colour }, place) => {
    below = below.map((size, run) => size + side.stacks[place][run]);
    return { values: closed(below), there: side.stacks[place].some(size => size > 0), label: meaning, colour };
  }).filter(area => area.there).reverse();
  const plot = draw(id, {
    scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: [0, data.most * 1.05] } },
    axes: [numberAxis("time, " + data.unit), bytesAxis("memory")],
    // From the top of the stack to its bottom, each over the one before.
    series: [{}, ...areas.map(area => ({ label: area.label, fill: area.colour, width: 0, paths: stepped, points: { show: false } }))],
    cursor: { y: false, points: { show: false } },
    hooks: {
      draw: [u => level(u, data.budget, "budget " + data.budget_text)],
      setCursor: [u => {
        if (u.cursor.left < 0) tip.style.display = "none";
        else showTip(u, lives(side, runAt(side.starts, u.posToVal(u.cursor.left, "x"))));
      }],
    },
  }, [side.starts, ...areas.map(area => area.values)]);
  plot.setScale("x", { min: 0, max: length });
  zoomable(plot, length);
}

function host(side, length) {
  const sizes = [...side.host, side.host[side.host.length - 1]];
  const plot = draw("host", {
    scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: [0, Math.max(...sizes, 1) * 1.05] } },
    axes: [numberAxis("time, " + data.unit), bytesAxis("host memory")],
    series: [{}, { fill: "#9a9a9a", stroke: "#444", paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
    cursor: { y: false, points: { show: false } },
    hooks: { setCursor: [u => {
      const run = runAt(side.starts, u.posToVal(u.cursor.left, "x"));
      if (u.cursor.left < 0) tip.style.display = "none";
      else showTip(u, [make("b", "run " + run), make("div", bytes(side.host[run]) + " in host memory")]);
    }] },
  }, [side.starts, sizes]);
  plot.setScale("x", { min: 0, max: length });
  zoomable(plot, length);
}

function curve() {
  const { points, own, smallest, impossible_below: impossible } = data.curve;
  const budgets = [...new Set([...points.map(point => point[0]), own[0]])].sort((a, b) => a - b);
  const at = new Map(points.map(point => [point[0], point]));
  const mine = budgets.map(budget => budget === own[0] ? own[1] : null);
  const values = [budgets, budgets.map(one => at.get(one)?.[1] ?? null), budgets.map(one => at.get(one)?.[2] ?? null), mine];
  const top = Math.max(1, own[1], ...values[1].filter(one => one !== null)) * 1.08;
  const from = smallest ? Math.min(impossible, budgets[0]) : 0, to = budgets[budgets.length - 1];
  const margin = (to - from || to) * 0.03;
  draw("curve", {
    legend: { show: true, live: false },
    scales: { x: { time: false, range: [from - margin, to + margin] }, y: { range: [0, top] } },
    axes: [{ ...bytesAxis("budget"), size: 36, space: 90 }, { ...numberAxis("extra time, %"), size: 56 }],
    series: [
      { label: "budget" },
      { label: "plans", stroke: "#1f3f66", width: 2, spanGaps: true, points: { show: true, size: 7, fill: "#1f3f66" } },
      { label: "proven bound", stroke: "#777", width: 2, dash: [6, 4], spanGaps: true, points: { show: false } },
      { label: "this plan", stroke: "#a8432f", fill: "#a8432f", width: 0, points: { show: true, size: 13, fill: "#a8432f" } },
    ],
    cursor: { y: false, drag: { x: false, y: false } },
    hooks: {
      // Where nothing is possible.
      drawClear: [u => {
        if (!impossible) return;
        const end = u.valToPos(impossible, "x", true);
        u.ctx.fillStyle = "#e9e9e9";
        u.ctx.fillRect(u.bbox.left, u.bbox.top, Math.max(0, end - u.bbox.left), u.bbox.height);
      }],
      setCursor: [u => {
        const place = u.cursor.idx;
        if (u.cursor.left < 0 || place === null) { tip.style.display = "none"; return; }
        const budget = budgets[place], point = at.get(budget);
        const said = [];
        if (point) said.push(point[1] === null ? "no plan was found" : `+${point[1].toFixed(2)} % time`, `at least +${point[2].toFixed(2)} %`);
        if (budget === own[0]) said.push(`this plan: +${own[1].toFixed(2)} %`);
        showTip(u, [make("b", "budget " + bytes(budget)), ...said.map(text => make("div", text))]);
      }],
    },
  }, values);
}

const length = Math.max(...Object.values(data.sides).map(side => side.starts[side.starts.length - 1])) || 1;
for (const [id, side] of Object.entries(data.sides)) memory(id, side, length);
if (data.sides.after.host.length) host(data.sides.after, length);
curve();
