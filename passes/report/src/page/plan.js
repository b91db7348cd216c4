// The page of one plan: what lies in memory run by run, in host memory, and time against budget.
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
