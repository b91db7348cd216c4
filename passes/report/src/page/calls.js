// The page of steps that are made of many calls: a chart for each.
function said(step, moment) {
  const [name, plan, open] = step.moments[moment];
  const sizes = step.stacks.map(stack => stack[moment]);
  const sum = sizes.reduce((one, other) => one + other, 0);
  const table = document.createElement("table");
  sizes.forEach((size, part) => {
    if (!size) return;
    const row = document.createElement("tr");
    row.append(make("td", data.parts[part].meaning), make("td", bytes(size)));
    table.append(row);
  });
  const runs = plan === null ? [] : [make("div", `plan “${step.plans[plan][0]}”, holds ${bytes(step.plans[plan][1])} between its halves`)];
  const used = `${bytes(sum)} of ${step.budget_text} in use, ${open} calls open`;
  return [make("b", `moment ${moment}: ${name}`), ...runs, make("div", used), table];
}

function chart(step, place) {
  const count = step.moments.length, stepped = uPlot.paths.stepped({ align: 1 });
  const closed = sizes => [...sizes, sizes[sizes.length - 1]];
  const places = Array.from({ length: count + 1 }, (_, moment) => moment);
  let below = new Array(count).fill(0);
  const areas = data.parts.map(({ meaning, colour }, part) => {
    below = below.map((size, moment) => size + step.stacks[part][moment]);
    return { values: closed(below), there: step.stacks[part].some(size => size > 0), meaning, colour };
  }).filter(area => area.there).reverse();
  const plot = draw("step" + place, {
    scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: [0, step.most * 1.05] } },
    axes: [{ ...numberAxis("moment of the step"), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }, bytesAxis("memory")],
    series: [{}, ...areas.map(area => ({ label: area.meaning, fill: area.colour, width: 0, paths: stepped, points: { show: false } }))],
    cursor: { y: false, points: { show: false } },
    hooks: {
      draw: [u => level(u, step.budget, "budget " + step.budget_text)],
      setCursor: [u => {
        if (u.cursor.left < 0) tip.style.display = "none";
        else showTip(u, said(step, runAt(places, u.posToVal(u.cursor.left, "x"))));
      }],
    },
  }, [places, ...areas.map(area => area.values)]);
  plot.setScale("x", { min: 0, max: count });
  zoomable(plot, count);
}

data.steps.forEach((step, place) => { if (step.moments.length) chart(step, place); });
